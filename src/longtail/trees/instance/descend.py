"""Prediction: every tree's leaf for a point, the mean of what the leaves say, and the best labels of that.

With tail classifiers the ranking is a second look at the labels that the trees propose (see `rank`).
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray
from scipy import sparse

from longtail.core.predictions import Predictions, empty_top
from longtail.core.run import in_threads, thread_count
from longtail.core.topk import offer
from longtail.trees.instance.forest import Forest
from longtail.trees.instance.rank import make_point_buffers, rank_by_means, rank_by_points
from longtail.trees.instance.tail import Centres, TailPoints

_POINTS_AT_A_TIME = 256
_MANY_WEIGHTS = 16  # times as many weights as the point has features: looking these up is quicker than reading all


def top_of_forest(
    X: sparse.csr_matrix,
    forest: Forest,
    k: int,
    *,
    tail: Centres | TailPoints | None = None,
    alpha: float = 1.0,
    gamma: float = 0.0,
    n_jobs: int | None = None,
) -> Predictions:
    """The k best labels of each row of X, by the mean of the leaves P_l, or with tail classifiers by
    alpha log P_l + (1 - alpha) log s_l, over the labels with P_l > 0. `TailPoints` need a forest that knows its points.
    """
    labels, scores = empty_top(X.shape[0], k)
    x = _arrays(X)
    trees = (forest.roots, forest.children, forest.intercepts, _arrays(forest.hyperplanes), _arrays(forest.leaves))
    means = points = None
    mixture = np.float32(alpha), np.float32(gamma)
    if isinstance(tail, Centres):
        means = (_arrays(tail.matrix), tail.squared_norms, *mixture)
    elif tail is not None:
        own_labels = tail.Y.indptr, tail.Y.indices
        points = (_arrays(forest.points), _arrays(tail.X), tail.squared_norms, own_labels, *mixture)

    def work(first: int) -> None:
        end = min(first + _POINTS_AT_A_TIME, X.shape[0])
        _top_of_points(x, trees, means, points, X.shape[1], forest.leaves.shape[1], first, end, labels, scores)

    starts = range(0, X.shape[0], _POINTS_AT_A_TIME)
    for _ in in_threads(work, starts, n_jobs=min(thread_count(n_jobs), max(len(starts), 1))):
        pass
    return Predictions(labels, scores)


def _arrays(matrix: sparse.csr_matrix) -> tuple[NDArray, NDArray, NDArray]:
    return matrix.indptr, matrix.indices, matrix.data


@njit(cache=True, nogil=True)
def _top_of_points(x, trees, means, points, n_features, n_labels, first, end, labels, scores):
    indptr, indices, data = x
    dense = np.zeros(n_features, np.float32)
    sums = np.zeros(n_labels, np.float32)
    proposed, shares = np.empty(n_labels, np.int32), np.empty(n_labels, np.float32)
    reached = np.empty(trees[0].shape[0], np.int32)
    if points is not None:
        buffers = make_point_buffers(points[2].shape[0], n_labels)
    for i in range(first, end):
        own_indices, own_data = indices[indptr[i] : indptr[i + 1]], data[indptr[i] : indptr[i + 1]]
        squared_norm = np.float32(0)
        for p in range(own_indices.shape[0]):
            dense[own_indices[p]] = own_data[p]
            squared_norm += own_data[p] * own_data[p]
        _descend(own_indices, own_data, dense, trees, reached)
        n_proposed = _add_leaves(reached, trees[4], sums, proposed)
        for q in range(n_proposed):
            shares[q] = sums[proposed[q]] / np.float32(reached.shape[0])
            sums[proposed[q]] = 0
        ids, own = proposed[:n_proposed], shares[:n_proposed]
        if means is not None:
            rank_by_means(ids, own, dense, squared_norm, means, labels[i], scores[i])
        elif points is not None:
            rank_by_points(ids, own, reached, dense, squared_norm, points, buffers, labels[i], scores[i])
        else:
            for q in range(n_proposed):
                offer(ids[q], own[q], labels[i], scores[i])
        for feature in own_indices:
            dense[feature] = 0


@njit(cache=True, nogil=True)
def _descend(own_indices, own_data, dense, trees, reached):
    """The leaf of every tree that a point reaches."""
    roots, children, intercepts, (w_ptr, w_indices, w_data), _ = trees
    for tree in range(roots.shape[0]):
        node = roots[tree]
        while children[node, 0] >= 0:
            start, end = w_ptr[node], w_ptr[node + 1]
            margin = intercepts[node]
            if end - start > _MANY_WEIGHTS * own_indices.shape[0]:
                margin = _add_found(margin, own_indices, own_data, w_indices[start:end], w_data[start:end])
            else:
                for p in range(start, end):
                    margin += w_data[p] * dense[w_indices[p]]
            node = children[node, 1 if margin > 0 else 0]
        reached[tree] = node


@njit(cache=True, nogil=True)
def _add_found(margin, own_indices, own_data, w_indices, w_data):
    """margin + w . x, looking for the features of x among those of w: the same terms in the same order as above.

    Hyperplanes of upper nodes have thousands of weights, short texts a dozen features.
    """
    low, n = 0, w_indices.shape[0]
    for p in range(own_indices.shape[0]):
        feature, high = own_indices[p], n
        while low < high:
            middle = (low + high) >> 1
            if w_indices[middle] < feature:
                low = middle + 1
            else:
                high = middle
        if low == n:
            break
        if w_indices[low] == feature:
            margin += w_data[low] * own_data[p]
    return margin


@njit(cache=True, nogil=True)
def _add_leaves(reached, leaves, sums, proposed):
    """Add up the leaves; returns how many labels there are, and writes which into `proposed`."""
    ptr, labels, values = leaves
    n_proposed = 0
    for node in reached:
        for p in range(ptr[node], ptr[node + 1]):
            label = labels[p]
            if sums[label] == 0:
                proposed[n_proposed] = label
                n_proposed += 1
            sums[label] += values[p]
    return n_proposed
