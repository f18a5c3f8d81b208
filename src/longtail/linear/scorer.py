"""Exact top-k labels of sparse linear classifiers, without ever holding a points x labels matrix.

A point adds up the rows of its features in a buffer with one score per classifier, and its k best are picked from
there. Few features have most of the weights: a row that has a weight for every twentieth classifier or more is also
kept as a dense row of half-precision numbers and added in vector registers, four rows at a time, which is some ten
times as fast as adding its entries one by one. All points, alone or in a batch, take the same way: their scores are the
same bit for bit.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from longtail.core import topk
from longtail.core.compiled import njit
from longtail.core.predictions import Predictions, empty_top
from longtail.core.threads import each_in_threads
from longtail.linear.half import as_float, raw
from longtail.linear.weights import Weights

_DENSE = 0.05  # share of the classifiers with a weight from which on a row is kept densely as well
_MOST_DENSE = 8  # bytes of dense rows per byte of weights, at most
_POINTS_AT_A_TIME = 64
_CHUNK = 128  # classifiers that are compared with the k-th best score together


class LinearScorer:
    """Ranks labels by the classifiers of `Weights`."""

    def __init__(self, weights: Weights) -> None:
        self.weights = weights

    def top(self, X: sparse.csr_matrix, k: int, *, n_jobs: int | None = None) -> Predictions:
        """Return the k best labels per row of X; ties go to the lower label id."""
        labels, scores = empty_top(X.shape[0], k)
        x = X.indptr.astype(np.int64), X.indices.view(np.uint32), X.data
        kept, members = self.weights, self._members
        w = kept.ptr, kept.classifiers, raw(kept.values), kept.intercepts
        dense = self._dense

        def work(first: int) -> None:
            end = min(first + _POINTS_AT_A_TIME, X.shape[0])
            top_of_points(x, w, dense, members, first, end, labels, scores)

        each_in_threads(work, range(0, X.shape[0], _POINTS_AT_A_TIME), n_jobs=n_jobs)
        return Predictions(labels, scores)

    @cached_property
    def _members(self) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Labels by classifier, in CSR form."""
        of_label, n = self.weights.of_label, self.weights.intercepts.size
        labels = np.flatnonzero(of_label >= 0)
        order = labels[np.argsort(of_label[labels], kind="stable")]
        return np.cumsum(np.bincount(of_label[labels] + 1, minlength=n + 1)), order.astype(np.int32)

    @cached_property
    def _dense(self) -> tuple[NDArray[np.int32], NDArray]:
        """Place of each feature's dense row, -1 for features without one; and the rows."""
        kept = self.weights
        sizes, n = np.diff(kept.ptr), kept.intercepts.size
        room = _MOST_DENSE * kept.values.nbytes // max(n * kept.values.itemsize, 1)
        longest = np.argsort(-sizes, kind="stable")[:room]
        features = np.sort(longest[sizes[longest] >= max(_DENSE * n, 1)])
        place = np.full(sizes.size, -1, np.int32)
        place[features] = np.arange(features.size)
        rows = np.zeros((features.size, n), raw(kept.values).dtype)
        _spread(kept.ptr, kept.classifiers, raw(kept.values), features, rows)
        return place, rows


@njit(cache=True, nogil=True)
def _spread(ptr, classifiers, values, features, rows):
    for r in range(features.shape[0]):
        for q in range(ptr[features[r]], ptr[features[r] + 1]):
            rows[r, classifiers[q]] = values[q]


@njit(cache=True, nogil=True)
def top_of_points(x, w, dense, members, first, end, labels, scores):
    """Fill in the best labels and their scores for the points first..end-1."""
    ptr, indices, data = x
    n, k = w[3].shape[0], min(labels.shape[1], w[3].shape[0])
    z = np.empty(n, np.float32)
    widest = 0
    for i in range(first, end):
        widest = max(widest, ptr[i + 1] - ptr[i])
    rows, factors = np.empty(widest, np.int64), np.empty(widest, np.float32)
    for i in range(first, end):
        score_point(indices[ptr[i] : ptr[i + 1]], data[ptr[i] : ptr[i + 1]], w, dense, rows, factors, z)
        best, best_scores = np.full(k, -1, np.int32), np.full(k, -np.inf, np.float32)
        pick(z, best, best_scores)
        for j in range(k):
            if best[j] >= 0:
                for m in range(members[0][best[j]], members[0][best[j] + 1]):
                    topk.offer(members[1][m], best_scores[j], labels[i], scores[i])


@njit(cache=True, nogil=True)
def score_point(features, values, w, dense, rows, factors, z):
    """Set z to the scores of all classifiers for one point: dense rows first, then the others."""
    ptr, classifiers, weights, intercepts = w
    place, dense_rows = dense
    z[:] = intercepts
    n_dense = 0
    for p in range(features.shape[0]):
        if place[features[p]] >= 0:
            rows[n_dense], factors[n_dense] = place[features[p]], values[p]
            n_dense += 1
    fours = n_dense - n_dense % 4
    for j in range(0, fours, 4):
        _add_four(
            z, dense_rows[rows[j]], dense_rows[rows[j + 1]], dense_rows[rows[j + 2]], dense_rows[rows[j + 3]],
            factors[j], factors[j + 1], factors[j + 2], factors[j + 3],
        )  # fmt: skip
    for j in range(fours, n_dense):
        _add_one(z, dense_rows[rows[j]], factors[j])
    for p in range(features.shape[0]):
        if place[features[p]] < 0:
            for q in range(ptr[features[p]], ptr[features[p] + 1]):
                z[classifiers[q]] += values[p] * as_float(weights[q])


@njit(cache=True, nogil=True)
def _add_four(z, row_0, row_1, row_2, row_3, x_0, x_1, x_2, x_3):
    for c in range(z.shape[0]):
        total = z[c] + x_0 * as_float(row_0[c])
        total += x_1 * as_float(row_1[c])
        total += x_2 * as_float(row_2[c])
        z[c] = total + x_3 * as_float(row_3[c])


@njit(cache=True, nogil=True)
def _add_one(z, row, x):
    for c in range(z.shape[0]):
        z[c] += x * as_float(row[c])


@njit(cache=True, nogil=True)
def pick(z, best, scores):
    """Put the classifiers with the highest scores into `best`, ties to the lower number; -inf and NaN are left out."""
    floor = np.float32(-np.inf)
    for first in range(0, z.shape[0], _CHUNK):
        end = min(first + _CHUNK, z.shape[0])
        n_above = 0
        for c in range(first, end):  # a loop that the compiler turns into vector comparisons
            n_above += z[c] > floor
        if n_above > 0:
            for c in range(first, end):
                if z[c] > floor:
                    topk.offer(c, z[c], best, scores)
                    floor = scores[-1]
