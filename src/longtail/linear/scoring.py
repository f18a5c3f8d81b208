"""Exact top-k of a sparse linear model, point by point, without a matrix of points x labels.

Weights are kept by feature: row f lists the labels that feature f speaks for or against. A point adds up the rows of
its features in one buffer of L scores (one a thread), and its k best are picked from there.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray
from scipy import sparse

from longtail.core import topk
from longtail.core.predictions import Predictions, empty_top
from longtail.core.run import in_threads, thread_count

_POINTS_AT_A_TIME = 256


def top_of_linear(
    X: sparse.csr_matrix,
    by_feature: sparse.csr_matrix,
    intercepts: NDArray[np.float32],
    k: int,
    *,
    n_jobs: int | None = None,
) -> Predictions:
    """The k best labels of each row of X under scores X @ by_feature + intercepts."""
    labels, scores = empty_top(X.shape[0], k)
    x = (X.indptr, X.indices, X.data)
    w = (by_feature.indptr, by_feature.indices, by_feature.data)

    def work(first: int) -> None:
        end = min(first + _POINTS_AT_A_TIME, X.shape[0])
        _top_of_points(*x, *w, intercepts, first, end, labels, scores)

    starts = range(0, X.shape[0], _POINTS_AT_A_TIME)
    for _ in in_threads(work, starts, n_jobs=min(thread_count(n_jobs), max(len(starts), 1))):
        pass
    return Predictions(labels, scores)


@njit(cache=True, nogil=True)
def _top_of_points(x_ptr, x_indices, x_data, w_ptr, w_indices, w_data, intercepts, first, end, labels, scores):
    buffer = np.empty(intercepts.shape[0], np.float32)
    for i in range(first, end):
        buffer[:] = intercepts
        for p in range(x_ptr[i], x_ptr[i + 1]):
            value, feature = x_data[p], x_indices[p]
            for q in range(w_ptr[feature], w_ptr[feature + 1]):
                buffer[w_indices[q]] += value * w_data[q]
        for label in range(buffer.shape[0]):
            topk.offer(label, buffer[label], labels[i], scores[i])
