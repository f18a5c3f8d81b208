"""Apply a model to new data: inputs in the form that it reads, predictions in chunks."""

from __future__ import annotations

import logging
from typing import Any

from scipy import sparse

from longtail.core.estimator import Estimator
from longtail.core.predictions import Predictions
from longtail.core.progress import Progress, Silent, reported
from longtail.data import Dataset
from longtail.errors import DataError

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
    n_points = inputs.shape[0] if sparse.issparse(inputs) else len(inputs)
    parts = []
    with reported(progress or Silent(), "predict", n_points) as advance:
        for start in range(0, max(n_points, 1), _CHUNK):
            parts.append(model.predict(inputs[start : start + _CHUNK], k=k, calibrated=calibrated))
            advance(len(parts[-1]))
    return Predictions.concatenate(parts)
