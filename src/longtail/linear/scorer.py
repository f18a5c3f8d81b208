"""Exact top-k labels of a sparse linear model, without ever holding a points x labels matrix.

There are two ways, with the same result up to rounding:

one by one   For few points. Weights by feature: row f lists the labels that feature f has a weight for. A point adds up
             the rows of its features in a buffer of L scores and picks its k best from there. Needs no preparation.
in blocks    For many points. The weights of BLOCK labels are spread out as a dense (features, BLOCK) tile, and every
             point is scored against the whole tile in vector registers (`simd.block_dots`, as in training). A tile is
             filled once for all points. This pays from a few hundred points on and is then several times as fast.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from longtail.core import topk
from longtail.core.compiled import njit
from longtail.core.memory import huge_zeros
from longtail.core.predictions import Predictions, empty_top
from longtail.core.threads import each_in_threads, in_threads
from longtail.linear.simd import BLOCK, block_dots

MANY_POINTS = 256  # tiles pay from this number of points on
_POINTS_AT_A_TIME = 64
_TILES_AT_A_TIME = 8


class LinearScorer:
    """Sparse linear model that ranks labels.

    Parameters
    ----------
    by_feature : (D, L) csr_matrix of float32
        Weights.
    intercepts : (L,) array of float32
        One intercept per label.
    """

    def __init__(self, by_feature: sparse.csr_matrix, intercepts: NDArray[np.float32]) -> None:
        self.by_feature, self.intercepts = by_feature, intercepts
        self._by_label: tuple[NDArray, ...] | None = None

    def top(self, X: sparse.csr_matrix, k: int, *, n_jobs: int | None = None) -> Predictions:
        """Return the k best labels per row of X; ties go to the lower label id."""
        if X.shape[0] < MANY_POINTS:
            return self._one_by_one(X, k, n_jobs)
        return self._in_blocks(X, k, n_jobs)

    def _one_by_one(self, X: sparse.csr_matrix, k: int, n_jobs: int | None) -> Predictions:
        labels, scores = empty_top(X.shape[0], k)
        x, w = _arrays(X), _arrays(self.by_feature)

        def work(first: int) -> None:
            _top_of_points(x, w, self.intercepts, first, min(first + _POINTS_AT_A_TIME, X.shape[0]), labels, scores)

        starts = range(0, X.shape[0], _POINTS_AT_A_TIME)
        each_in_threads(work, starts, n_jobs=n_jobs)
        return Predictions(labels, scores)

    def _in_blocks(self, X: sparse.csr_matrix, k: int, n_jobs: int | None) -> Predictions:
        if self._by_label is None:
            self._by_label = _arrays(self.by_feature.tocsc())
        x, w = _arrays(X), self._by_label
        span = BLOCK * _TILES_AT_A_TIME
        labels, scores = empty_top(X.shape[0], k)

        def work(first: int) -> tuple[NDArray, NDArray]:
            part = empty_top(X.shape[0], k)
            tile = huge_zeros((X.shape[1], BLOCK))
            # A score below the k-th best of the parts merged so far cannot be among the k best in the end. How many
            # parts are merged by now depends on the threads and affects speed only: most labels need no insertion.
            floor = scores[:, -1].copy()
            _top_of_tiles(x, w, self.intercepts, tile, first, min(first + span, self.intercepts.size), floor, *part)
            return part

        # Parts arrive in the order of their labels, so ties go to the lower id whichever thread was faster.
        with in_threads(work, range(0, self.intercepts.size, span), n_jobs=n_jobs) as parts:
            for part in parts:
                _merge(*part, labels, scores)
        return Predictions(labels, scores)


def _arrays(matrix: sparse.csr_matrix) -> tuple[NDArray, ...]:
    # With unsigned indices Numba need not check for negative ones.
    return matrix.indptr.astype(np.int64), matrix.indices.view(np.uint32), matrix.data


@njit(cache=True, nogil=True)
def _top_of_points(x, w, intercepts, first, end, labels, scores):
    x_ptr, x_indices, x_data = x
    w_ptr, w_indices, w_data = w
    buffer = np.empty(intercepts.shape[0], np.float32)
    for i in range(first, end):
        buffer[:] = intercepts
        for p in range(x_ptr[i], x_ptr[i + 1]):
            value, feature = x_data[p], np.int64(x_indices[p])
            for q in range(w_ptr[feature], w_ptr[feature + 1]):
                buffer[w_indices[q]] += value * w_data[q]
        for label in range(buffer.shape[0]):
            topk.offer(label, buffer[label], labels[i], scores[i])


@njit(cache=True, nogil=True)
def _top_of_tiles(x, w, intercepts, tile, first, end, floor, labels, scores):
    x_ptr, x_indices, x_data = x
    w_ptr, w_indices, w_data = w
    z = np.empty(BLOCK, np.float32)
    for start in range(first, end, BLOCK):
        width = min(BLOCK, end - start)
        for lane in range(width):
            for q in range(w_ptr[start + lane], w_ptr[start + lane + 1]):
                tile[w_indices[q], lane] = w_data[q]
        for i in range(labels.shape[0]):
            block_dots(tile, x_indices, x_data, x_ptr[i], x_ptr[i + 1], z)
            worst = max(scores[i, -1], floor[i])
            for lane in range(width):
                score = z[lane] + intercepts[start + lane]
                if score >= worst:
                    topk.offer(start + lane, score, labels[i], scores[i])
                    worst = max(scores[i, -1], floor[i])
        for lane in range(width):  # leave the tile empty for the next labels
            for q in range(w_ptr[start + lane], w_ptr[start + lane + 1]):
                tile[w_indices[q], lane] = 0


@njit(cache=True, nogil=True)
def _merge(labels, scores, into_labels, into_scores):
    for i in range(labels.shape[0]):
        for j in range(labels.shape[1]):
            if labels[i, j] >= 0:
                topk.offer(labels[i, j], scores[i, j], into_labels[i], into_scores[i])
