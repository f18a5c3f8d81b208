"""Exact top-k labels of sparse linear classifiers, without ever holding a points x labels matrix.

A point adds up the rows of its features in a buffer with one score per classifier, and its k best are picked from
there. Few features have most of the weights: a row that has a weight for every twentieth classifier or more is also
kept as a dense row of half-precision numbers and added in vector registers, four rows at a time, which is some ten
times as fast as adding its entries one by one. All points, alone or in a batch, take the same way: their scores are the
same bit for bit.

The first few single points of a process are scored by NumPy, in the same order of additions and with the same bits:
loading the compiled kernels takes longer than that, and compiling them takes seconds.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from longtail.core.predictions import Predictions, empty_top
from longtail.core.threads import each_in_threads
from longtail.linear.weights import Weights, raw

_DENSE = 0.05  # share of the classifiers with a weight from which on a row is kept densely as well
_MOST_DENSE = 8  # bytes of dense rows per byte of weights, at most
_POINTS_AT_A_TIME = 64
_SINGLE_POINTS = 3  # scored by NumPy before kernels are loaded


class LinearScorer:
    """Ranks labels by the classifiers of `Weights`."""

    def __init__(self, weights: Weights) -> None:
        self.weights = weights
        self._left_to_numpy = _SINGLE_POINTS

    def top(self, X: sparse.csr_matrix, k: int, *, n_jobs: int | None = None) -> Predictions:
        """Return the k best labels per row of X; ties go to the lower label id."""
        if X.shape[0] == 1 and self._left_to_numpy > 0:
            self._left_to_numpy -= 1
            return self._top_of_one(X, k)
        from longtail.linear.scorer_kernels import top_of_points  # here: it loads Numba

        labels, scores = empty_top(X.shape[0], k)
        x = tuple(map(_fixed, (X.indptr.astype(np.int64), X.indices.view(np.uint32), X.data)))
        kept, members = self.weights, self._members
        w = tuple(map(_fixed, (kept.ptr, kept.classifiers, raw(kept.values), kept.intercepts)))
        dense = self._dense

        def work(first: int) -> None:
            end = min(first + _POINTS_AT_A_TIME, X.shape[0])
            top_of_points(x, w, dense, members, first, end, labels, scores)

        each_in_threads(work, range(0, X.shape[0], _POINTS_AT_A_TIME), n_jobs=n_jobs)
        return Predictions(labels, scores)

    def labels_of(self, best: NDArray[np.int32], best_scores: NDArray[np.float32], k: int) -> Predictions:
        """Return the k best labels per point, given its best classifiers: k of them, or all."""
        from longtail.linear.scorer_kernels import offer_all

        labels, scores = empty_top(best.shape[0], k)
        offer_all(best, best_scores, self._members, labels, scores)
        return Predictions(labels, scores)

    def _top_of_one(self, X: sparse.csr_matrix, k: int) -> Predictions:
        """Return the k best labels of one point without kernels: the plain twin of `top_of_points`."""
        kept, (ptr, members) = self.weights, self._members
        z = kept.intercepts.copy()
        dense = np.isin(X.indices, self._dense_features)
        for p in np.concatenate([np.flatnonzero(dense), np.flatnonzero(~dense)]):
            row = slice(kept.ptr[X.indices[p]], kept.ptr[X.indices[p] + 1])
            z[kept.classifiers[row]] += X.data[p] * kept.values[row].astype(np.float32)
        best = np.flatnonzero(z > -np.inf)
        best = best[np.argsort(-z[best], kind="stable")[:k]]
        offered = np.concatenate([members[ptr[c] : ptr[c + 1]] for c in best] or [members[:0]])
        of_each = np.repeat(z[best], ptr[best + 1] - ptr[best])
        order = np.lexsort((offered, -of_each))[:k]
        labels, scores = empty_top(1, k)
        labels[0, : order.size], scores[0, : order.size] = offered[order], of_each[order]
        return Predictions(labels, scores)

    @cached_property
    def _members(self) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Labels by classifier, in CSR form."""
        of_label, n = self.weights.of_label, self.weights.intercepts.size
        labels = np.flatnonzero(of_label >= 0)
        order = labels[np.argsort(of_label[labels], kind="stable")]
        return np.cumsum(np.bincount(of_label[labels] + 1, minlength=n + 1)), order.astype(np.int32)

    @cached_property
    def _dense_features(self) -> NDArray[np.intp]:
        """Features whose rows are kept densely, too."""
        kept = self.weights
        sizes, n = np.diff(kept.ptr), kept.intercepts.size
        room = _MOST_DENSE * kept.values.nbytes // max(n * kept.values.itemsize, 1)
        longest = np.argsort(-sizes, kind="stable")[:room]
        return np.sort(longest[sizes[longest] >= max(_DENSE * n, 1)])

    @cached_property
    def _dense(self) -> tuple[NDArray[np.int32], NDArray]:
        """Place of each feature's dense row, -1 for features without one; and the rows."""
        from longtail.linear.scorer_kernels import spread

        kept, features = self.weights, self._dense_features
        place = np.full(kept.ptr.size - 1, -1, np.int32)
        place[features] = np.arange(features.size)
        rows = np.zeros((features.size, kept.intercepts.size), raw(kept.values).dtype)
        spread(*map(_fixed, (kept.ptr, kept.classifiers, raw(kept.values))), features, rows)
        return place, rows


def _fixed(array: NDArray) -> NDArray:
    """Return a view that cannot be written: kernels are then the same for new models and for mapped ones."""
    view = array.view()
    view.flags.writeable = False
    return view
