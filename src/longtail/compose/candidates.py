"""The labels that a base proposes for points, and the best of them by other scores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from longtail.compose.calibration import Floats, log_probability
from longtail.core import topk
from longtail.core.compiled import njit
from longtail.core.predictions import Predictions, empty_top


@dataclass(frozen=True, eq=False)
class Candidates:
    """The m labels that a base proposes for each of n points.

    Parameters
    ----------
    labels : ndarray of shape (n, m)
        Label ids; -1 pads.
    log_odds : ndarray of shape (n, m)
        Their log-odds; -inf for padding.
    hits : ndarray of shape (n, m)
        Which of them are correct.
    truth : csr_matrix of shape (n, n_labels)
        All labels of the points.
    """

    labels: NDArray[np.int32]
    log_odds: Floats
    hits: NDArray[np.bool_]
    truth: sparse.csr_matrix

    def __len__(self) -> int:
        return int(self.labels.shape[0])

    def __getitem__(self, rows: NDArray[np.intp]) -> Candidates:
        return Candidates(self.labels[rows], self.log_odds[rows], self.hits[rows], self.truth[rows])


def log_quotient(
    labels: NDArray[np.int32], log_odds: NDArray[Any], log_inverse: Floats, exponent: float
) -> NDArray[Any]:
    """Return log(P / p^exponent) of candidates, given their log-odds and log 1/p of every label."""
    return log_probability(log_odds) + exponent * log_inverse[labels]


def best_of(candidates: NDArray[np.int32], scores: NDArray[Any], k: int) -> Predictions:
    """Return the k best candidates per point (-1 pads), ties by the lower label id."""
    best = empty_top(candidates.shape[0], k)
    with np.errstate(over="ignore"):  # a score too large for float32 is infinite, and ranks first
        narrow = np.ascontiguousarray(scores, dtype=np.float32)
    _best_of(candidates, narrow, *best)
    return Predictions(*best)


@njit(cache=True, nogil=True)
def _best_of(candidates, new_scores, labels, scores):
    for i in range(candidates.shape[0]):
        for j in range(candidates.shape[1]):
            if candidates[i, j] >= 0:
                topk.offer(candidates[i, j], new_scores[i, j], labels[i], scores[i])
