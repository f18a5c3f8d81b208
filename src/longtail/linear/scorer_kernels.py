"""Kernels of `linear.scorer`. An array is filled in a loop, as in `features.words`: slices take long to compile."""

from __future__ import annotations

import numpy as np

from longtail.core import topk
from longtail.core.compiled import njit
from longtail.linear.half import as_float

_CHUNK = 128  # classifiers that are compared with the k-th best score together


@njit(cache=True, nogil=True)
def spread(ptr, classifiers, values, features, rows):
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
        offer_labels(best, best_scores, members, labels[i], scores[i])


@njit(cache=True, nogil=True, allocates=False)
def offer_labels(best, best_scores, members, labels, scores):
    for j in range(best.shape[0]):
        if best[j] >= 0:
            for m in range(members[0][best[j]], members[0][best[j] + 1]):
                topk.offer(members[1][m], best_scores[j], labels, scores)


@njit(cache=True, nogil=True)
def offer_all(best, best_scores, members, labels, scores):
    for i in range(best.shape[0]):
        offer_labels(best[i], best_scores[i], members, labels[i], scores[i])


@njit(cache=True, nogil=True, allocates=False)
def score_point(features, values, w, dense, rows, factors, z):
    """Set z to the scores of all classifiers for one point: dense rows first, then the others."""
    ptr, classifiers, weights, intercepts = w
    place, dense_rows = dense
    for c in range(z.shape[0]):
        z[c] = intercepts[c]
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


@njit(cache=True, nogil=True, allocates=False)
def _add_four(z, row_0, row_1, row_2, row_3, x_0, x_1, x_2, x_3):
    for c in range(z.shape[0]):
        total = z[c] + x_0 * as_float(row_0[c])
        total += x_1 * as_float(row_1[c])
        total += x_2 * as_float(row_2[c])
        z[c] = total + x_3 * as_float(row_3[c])


@njit(cache=True, nogil=True, allocates=False)
def _add_one(z, row, x):
    for c in range(z.shape[0]):
        z[c] += x * as_float(row[c])


@njit(cache=True, nogil=True, allocates=False)
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
