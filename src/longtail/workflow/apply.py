"""Apply a model to data that it was not trained on: inputs brought to its shape, predictions in chunks."""

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
