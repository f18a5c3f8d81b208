"""A model on data it was not made for: features brought to its width, predictions in chunks, labels held against."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from longtail.core.estimator import Estimator
from longtail.core.predictions import Predictions
from longtail.core.run import Progress, Silent, reported
from longtail.data import Dataset
from longtail.errors import DataError
from longtail.metrics import Matches, by_band, evaluate
from longtail.objectives import PropensityModel

logger = logging.getLogger(__name__)

KS = (1, 2, 3, 4, 5)
_CHUNK = 2048  # points; bounds the memory of a prediction, large enough to keep threads busy


def conform(data: Dataset, model: Estimator) -> Any:
    """What `model.predict` takes of this data: texts, or features cut or padded to the width it was trained with."""
    if model.input_kind == "text":
        if data.texts is None:
            raise DataError("the model was trained on texts, but these data hold features only")
        return data.texts
    if data.X is None:
        raise DataError("the model was trained on features, but these data hold texts only")
    missing = model.n_features_in_ - data.X.shape[1]
    if missing >= 0:
        return sparse.csr_matrix((data.X.data, data.X.indices, data.X.indptr), (data.n_points, model.n_features_in_))
    kept = data.X[:, : model.n_features_in_]
    logger.warning(
        "the data have %d features, the model was trained with %d; the %d beyond carry no weight and are dropped "
        "(%d of %d values)",
        data.X.shape[1], model.n_features_in_, -missing, data.X.nnz - kept.nnz, data.X.nnz,
    )  # fmt: skip
    return kept


def predict_in_chunks(model: Estimator, inputs: Any, k: int, progress: Progress | None = None) -> Predictions:
    """`model.predict` over slices of the inputs, so that no intermediate result grows with their number."""
    n_points = inputs.shape[0] if sparse.issparse(inputs) else len(inputs)
    parts = []
    with reported(progress or Silent(), "predict", n_points) as advance:
        for start in range(0, max(n_points, 1), _CHUNK):
            parts.append(model.predict(inputs[start : start + _CHUNK], k=k))
            advance(len(parts[-1]))
    return Predictions.concatenate(parts)


@dataclass(frozen=True)
class Scores:
    """Metrics in percent at k = 1..5, and how each frequency band fares at the largest k (None without counts)."""

    metrics: dict[str, float]
    bands: dict[str, dict[str, float]] | None
    k: int


def score_predictions(
    predictions: Predictions,
    Y: sparse.csr_matrix,
    *,
    training_counts: NDArray[np.int64] | None = None,
    n_training_points: int | None = None,
    propensity: PropensityModel | None = None,
) -> Scores:
    """Metrics of predictions; the propensity-scored ones and the bands need the training label counts.

    Labels of Y beyond the training counts were never seen: they count as misses, with the propensity of 0 points.
    """
    ks = [k for k in KS if k <= predictions.k]
    inverse = bands = None
    if training_counts is not None and n_training_points is not None:
        width = max(Y.shape[1], training_counts.size, int(predictions.labels.max(initial=-1)) + 1)
        counts = np.zeros(width, np.int64)
        counts[: training_counts.size] = training_counts
        Y = sparse.csr_matrix((Y.data, Y.indices, Y.indptr), shape=(Y.shape[0], width))
        inverse = (propensity or PropensityModel()).inverse(counts, n_training_points)
        bands = by_band(Matches.of(predictions, Y), ks[-1], counts)
    return Scores(evaluate(predictions, Y, inverse_propensities=inverse, ks=ks), bands, ks[-1])
