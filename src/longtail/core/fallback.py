"""Labels for points that a model can say nothing about, such as an empty text."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from longtail.core.predictions import Predictions

FALLBACKS = ("none", "popular")


def label_shares(label_counts: NDArray[np.number[Any]], n_points: int) -> NDArray[np.float32]:
    """Return the share of training points that have each label; -inf for labels without training points."""
    return np.where(label_counts > 0, label_counts / n_points, -np.inf).astype(np.float32)


def with_popular(found: Predictions, model: Any) -> Predictions:
    """Return the predictions with the most frequent labels for points that have none.

    Parameters
    ----------
    found : Predictions
        Predictions of the model.
    model : Estimator
        Fitted model, whose training data say how frequent labels are.

    Returns
    -------
    Predictions
        The scores of the points that had no labels are the shares of training points with the label.
    """
    empty = found.empty
    if not empty.any():
        return found
    popular = Predictions.from_dense(label_shares(model.label_counts_, model.n_points_)[None, :], found.k)
    labels, scores = found.labels.copy(), found.scores.copy()
    labels[empty], scores[empty] = popular.labels[0], popular.scores[0]
    return replace(found, labels=labels, scores=scores)
