"""Predict with a forest: find the leaf of a point in every tree, average the leaves, return the best labels.

With tail classifiers, the labels that the trees propose are ranked a second time (see `rank`).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from longtail.core.compiled import njit
from longtail.core.predictions import Predictions, empty_top
from longtail.core.threads import each_in_threads
from longtail.core.topk import offer
from longtail.trees.instance.forest import Forest
from longtail.trees.instance.products import add_product
from longtail.trees.instance.rank import rank_by_margins, rank_by_means
from longtail.trees.instance.tail import Centres, Classifiers

_POINTS_AT_A_TIME = 256


def top_of_forest(
    X: sparse.csr_matrix,
    forest: Forest,
    k: int,
    *,
    tail: Centres | Classifiers | None = None,
    alpha: float = 1.0,
    gamma: float = 0.0,
    n_jobs: int | None = None,
) -> Predictions:
    """Return the k best labels per row of X.

    Parameters
    ----------
    X : (n, D) csr_matrix of float32
        Features.
    forest : Forest
        Trees.
    k : int
        Labels per point.
    tail : Centres, Classifiers or None, default None
        Tail classifiers, which give s_l.
    alpha : float, default 1.0
        Weight of the trees; used with tail classifiers only.
    gamma : float, default 0.0
        Sharpness of s_l; used with `Centres` only.
    n_jobs : int or None, default None
        Number of threads.

    Returns
    -------
    Predictions
        Labels by P_l, the mean over the leaves that the point reaches, or with tail classifiers by
        alpha log P_l + (1 - alpha) log s_l. Labels with P_l = 0 are not predicted.
    """
    labels, scores = empty_top(X.shape[0], k)
    x = _arrays(X)
    trees = (forest.roots, forest.children, forest.intercepts, _arrays(forest.hyperplanes), _arrays(forest.leaves))
    means = classifiers = None
    if isinstance(tail, Centres):
        means = (_arrays(tail.matrix), tail.squared_norms, np.float32(alpha), np.float32(gamma))
    elif tail is not None:
        classifiers = (_arrays(tail.weights), tail.intercepts, np.float32(alpha))

    def work(first: int) -> None:
        end = min(first + _POINTS_AT_A_TIME, X.shape[0])
        _top_of_points(x, trees, means, classifiers, X.shape[1], forest.leaves.shape[1], first, end, labels, scores)

    starts = range(0, X.shape[0], _POINTS_AT_A_TIME)
    each_in_threads(work, starts, n_jobs=n_jobs)
    return Predictions(labels, scores)


def _arrays(matrix: sparse.csr_matrix) -> tuple[NDArray, NDArray, NDArray]:
    return matrix.indptr, matrix.indices, matrix.data


@njit(cache=True, nogil=True)
def _top_of_points(x, trees, means, classifiers, n_features, n_labels, first, end, labels, scores):
    indptr, indices, data = x
    dense = np.zeros(n_features, np.float32)
    sums = np.zeros(n_labels, np.float32)
    proposed, shares = np.empty(n_labels, np.int32), np.empty(n_labels, np.float32)
    reached = np.empty(trees[0].shape[0], np.int32)
    for i in range(first, end):
        own_indices, own_data = indices[indptr[i] : indptr[i + 1]], data[indptr[i] : indptr[i + 1]]
        squared_norm = np.float32(0)
        for p in range(own_indices.shape[0]):
            dense[own_indices[p]] = own_data[p]
            squared_norm += own_data[p] * own_data[p]
        point = own_indices, own_data, dense
        _descend(point, trees, reached)
        n_proposed = _add_leaves(reached, trees[4], sums, proposed)
        for q in range(n_proposed):
            shares[q] = sums[proposed[q]] / np.float32(reached.shape[0])
            sums[proposed[q]] = 0
        ids, own = proposed[:n_proposed], shares[:n_proposed]
        if means is not None:
            rank_by_means(ids, own, point, squared_norm, means, labels[i], scores[i])
        elif classifiers is not None:
            rank_by_margins(ids, own, point, classifiers, labels[i], scores[i])
        else:
            for q in range(n_proposed):
                offer(ids[q], own[q], labels[i], scores[i])
        for feature in own_indices:
            dense[feature] = 0


@njit(cache=True, nogil=True)
def _descend(point, trees, reached):
    """Set `reached` to the leaf that a point reaches in each tree."""
    roots, children, intercepts, (w_ptr, w_indices, w_data), _ = trees
    for tree in range(roots.shape[0]):
        node = roots[tree]
        while children[node, 0] >= 0:
            here = slice(w_ptr[node], w_ptr[node + 1])
            margin = add_product(intercepts[node], point, w_indices[here], w_data[here])
            node = children[node, 1 if margin > 0 else 0]
        reached[tree] = node


@njit(cache=True, nogil=True)
def _add_leaves(reached, leaves, sums, proposed):
    """Add up the leaves in `sums`, write the labels found to `proposed`, and return how many they are."""
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
