"""Apply a model to new data: inputs in the form that it reads, predictions in chunks."""

from __future__ import annotations

import logging
import platform
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from numpy.typing import NDArray
from scipy import sparse

from longtail.core.estimator import Estimator
from longtail.core.inputs import n_rows
from longtail.core.model import load_model
from longtail.core.predictions import Predictions
from longtail.core.progress import Progress, Silent, reported
from longtail.core.run import Run
from longtail.data import Dataset
from longtail.data.texts import Texts
from longtail.errors import DataError, ModelError

logger = logging.getLogger(__name__)

_CHUNK = 2048  # points; bounds the memory of a prediction, large enough to keep threads busy


def conform(data: Dataset, model: Estimator) -> Any:
    """Return the inputs of a dataset as the model reads them.

    Parameters
    ----------
    data : Dataset
        Data with texts or features.
    model : Estimator
        Fitted model.

    Returns
    -------
    sequence of str or csr_matrix
        Texts, or features cut or padded to the number that the model was trained with; a cut is logged as a warning.

    Raises
    ------
    DataError
        If the model needs texts and the data has none, or likewise for features.
    """
    if model.input_kind == "text":
        if data.texts is None:
            raise DataError("the model was trained on texts, but this dataset has only features")
        return data.texts
    if data.X is None:
        raise DataError("the model was trained on features, but this dataset has only texts")
    missing = model.n_features_in_ - data.X.shape[1]
    if missing >= 0:
        return sparse.csr_matrix((data.X.data, data.X.indices, data.X.indptr), (data.n_points, model.n_features_in_))
    kept = data.X[:, : model.n_features_in_]
    logger.warning(
        "the data has %d features, but the model was trained with %d; the %d others are dropped (%d of %d values)",
        data.X.shape[1], model.n_features_in_, -missing, data.X.nnz - kept.nnz, data.X.nnz,
    )  # fmt: skip
    return kept


@dataclass(eq=False)
class ModelAt:
    """A saved model that other machines load for themselves.

    Parameters
    ----------
    path : str
        Its directory, which all machines must see.
    options : dict
        What `adjusted` is to change.
    k : int
        Labels per point.
    calibrated : bool
        Probabilities as scores.
    """

    path: str
    options: dict[str, Any]
    k: int
    calibrated: bool

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "model"}

    @cached_property
    def model(self) -> Estimator:
        try:
            loaded: Estimator = load_model(self.path)
        except ModelError as error:
            raise ModelError(f"{error} (on node {platform.node()}; put the model where all nodes see it)") from error
        return loaded.adjusted(**self.options) if self.options else loaded


@dataclass(frozen=True, eq=False)
class Chunks(Sequence[Any]):
    """The chunks of some points, cut when they are asked for."""

    inputs: Any
    n_points: int

    def __len__(self) -> int:
        return max(-(-self.n_points // _CHUNK), 1)

    def __getitem__(self, number: Any) -> Any:
        chunk = self.inputs[number * _CHUNK : (number + 1) * _CHUNK]
        return chunk.packed() if isinstance(chunk, Texts) else chunk  # a chunk travels alone, not with all texts


def predict_chunk(shared: ModelAt, inputs: Any) -> dict[str, NDArray[Any]]:
    """Predict one chunk."""
    found = shared.model.predict(inputs, k=shared.k, calibrated=shared.calibrated)
    return {"labels": found.labels, "scores": found.scores}


def predict_elsewhere(model: ModelAt, inputs: Any, run: Run) -> Predictions:
    """Predict in chunks, wherever the engine of a run computes them.

    Parameters
    ----------
    model : ModelAt
        The model.
    inputs : csr_matrix or sequence of str
        What `conform` returned.
    run : Run
        Progress and engine.

    Returns
    -------
    Predictions
    """
    chunks = Chunks(inputs, n_rows(inputs))
    sizes = [min(_CHUNK, chunks.n_points - number * _CHUNK) for number in range(len(chunks))]
    with run.map(predict_chunk, chunks, shared=model, name="chunk", title="predict", sizes=sizes) as results:
        return Predictions.concatenate([Predictions(found["labels"], found["scores"]) for found in results])


def predict_in_chunks(
    model: Estimator, inputs: Any, k: int, progress: Progress | None = None, *, calibrated: bool = False
) -> Predictions:
    """Predict in chunks, so that no intermediate result grows with the number of points.

    Parameters
    ----------
    model : Estimator
        Fitted model.
    inputs : csr_matrix or sequence of str
        What `conform` returned.
    k : int
        Labels per point.
    progress : Progress, optional
        Where to show progress.
    calibrated : bool, default False
        Probabilities as scores.

    Returns
    -------
    Predictions
    """
    n_points = n_rows(inputs)
    parts = []
    with reported(progress or Silent(), "predict", n_points) as advance:
        for start in range(0, max(n_points, 1), _CHUNK):
            parts.append(model.predict(inputs[start : start + _CHUNK], k=k, calibrated=calibrated))
            advance(len(parts[-1]))
    return Predictions.concatenate(parts)
