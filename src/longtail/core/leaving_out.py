"""Explanations for models whose scores do not come apart: what a score loses when a feature is left out."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from longtail.core.explanation import Explanation, feature_weights

_ROWS_AT_A_TIME = 64
_BEST = 200  # labels per row that are looked through: to rank all of 50,000 would take minutes


def explained_by_leaving_out(model: Any, X: sparse.csr_matrix, label: int) -> Explanation:
    """Return the explanation of a label over the features of one point.

    A feature's contribution is what the score loses without it, all others unchanged, as far as the label stays among
    the 200 best. The bias is the rest of the score: what no single feature takes along.

    Parameters
    ----------
    model : Estimator
        A fitted model that reads features.
    X : (1, D) csr_matrix of float32
        Features of the point.
    label : int
        Id of a label that has training points.

    Returns
    -------
    Explanation
        Features are named by their numbers.
    """
    score = float(_scores(model, X, label)[0])
    without = [float(found) for part in _without_each(X) for found in _scores(model, part, label)]
    contributions = score - np.array(without)
    return Explanation(
        label, score, [], score - float(contributions.sum()), feature_weights(X.indices, X.data, contributions)
    )


def _without_each(X: sparse.csr_matrix) -> list[sparse.csr_matrix]:
    """Return the point without each of its features in turn, some rows at a time."""
    n = X.indices.size
    parts = []
    for first in range(0, n, _ROWS_AT_A_TIME):
        left_out = np.arange(first, min(first + _ROWS_AT_A_TIME, n))
        kept = np.arange(n)[None, :] != left_out[:, None]
        values = np.broadcast_to(X.data, kept.shape)[kept]
        features = np.broadcast_to(X.indices, kept.shape)[kept]
        starts = np.arange(left_out.size + 1) * (n - 1)
        parts.append(sparse.csr_matrix((values, features, starts), shape=(left_out.size, X.shape[1])))
    return parts


def _scores(model: Any, X: sparse.csr_matrix, label: int) -> NDArray[np.float64]:
    """Return the score of a label for each row; where it is not among the best, the lowest score of these."""
    ranked = model._predict(X, min(model.n_labels_, _BEST))
    lowest = np.where(ranked.labels >= 0, ranked.scores, np.inf).min(axis=1, initial=np.inf)
    own = np.where(ranked.labels == label, ranked.scores, -np.inf).max(axis=1, initial=-np.inf)
    found = np.where((ranked.labels == label).any(axis=1), own, lowest)
    return np.where(found == np.inf, 0.0, found).astype(np.float64)  # it gives none
