"""Prediction: every tree's leaf for a point, the mean of what the leaves say, and the best labels of that.

With tail classifiers the ranking is a second look at the labels that the trees propose (Jain et al. 2016, section 6).
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
from longtail.trees.instance.tail import Centres

_POINTS_AT_A_TIME = 256
_ZERO, _ONE, _HALF = np.float32(0), np.float32(1), np.float32(0.5)
_ROUNDING = np.float32(1e-3)  # far more than float32 sums are off by


def top_of_forest(
    X: sparse.csr_matrix,
    forest: Forest,
    k: int,
    *,
    centres: Centres | None = None,
    alpha: float = 1.0,
    gamma: float = 0.0,
    n_jobs: int | None = None,
) -> Predictions:
    """The k best labels of each row of X, by the mean of the leaves P_l, or with centres by
    alpha log P_l + (1 - alpha) log s_l, s_l = 1 / (1 + exp(gamma/2 |x - mu_l|^2)), over the labels with P_l > 0.
    """
    labels, scores = empty_top(X.shape[0], k)
    x = (X.indptr, X.indices, X.data)
    trees = (forest.roots, forest.children, forest.intercepts, _arrays(forest.hyperplanes), _arrays(forest.leaves))
    tail = None
    if centres is not None:
        tail = (*_arrays(centres.matrix), centres.squared_norms, np.float32(alpha), np.float32(gamma))

    def work(first: int) -> None:
        end = min(first + _POINTS_AT_A_TIME, X.shape[0])
        _top_of_points(x, trees, tail, X.shape[1], forest.leaves.shape[1], first, end, labels, scores)

    starts = range(0, X.shape[0], _POINTS_AT_A_TIME)
    for _ in in_threads(work, starts, n_jobs=min(thread_count(n_jobs), max(len(starts), 1))):
        pass
    return Predictions(labels, scores)


def _arrays(matrix: sparse.csr_matrix) -> tuple[NDArray, NDArray, NDArray]:
    return matrix.indptr, matrix.indices, matrix.data


@njit(cache=True, nogil=True)
def _top_of_points(x, trees, tail, n_features, n_labels, first, end, labels, scores):
    indptr, indices, data = x
    dense = np.zeros(n_features, np.float32)
    sums = np.zeros(n_labels, np.float32)
    proposed, shares = np.empty(n_labels, np.int32), np.empty(n_labels, np.float32)
    n_trees = np.float32(trees[0].shape[0])
    for i in range(first, end):
        own_indices, own_data = indices[indptr[i] : indptr[i + 1]], data[indptr[i] : indptr[i + 1]]
        squared_norm = np.float32(0)
        for p in range(own_indices.shape[0]):
            dense[own_indices[p]] = own_data[p]
            squared_norm += own_data[p] * own_data[p]
        n_proposed = _add_leaves(dense, trees, sums, proposed)
        for q in range(n_proposed):
            shares[q] = sums[proposed[q]] / n_trees
            sums[proposed[q]] = 0
        if tail is None:
            for q in range(n_proposed):
                offer(proposed[q], shares[q], labels[i], scores[i])
        else:
            _rank_anew(proposed[:n_proposed], shares[:n_proposed], dense, squared_norm, tail, labels[i], scores[i])
        for feature in own_indices:
            dense[feature] = 0


@njit(cache=True, nogil=True)
def _add_leaves(dense, trees, sums, proposed):
    """Add up the leaves that a point reaches; returns how many labels there are, and writes which into `proposed`."""
    roots, children, intercepts, hyperplanes, leaves = trees
    w_ptr, w_indices, w_data = hyperplanes
    leaf_ptr, leaf_labels, leaf_values = leaves
    n_proposed = 0
    for root in roots:
        node = root
        while children[node, 0] >= 0:
            margin = intercepts[node]
            for p in range(w_ptr[node], w_ptr[node + 1]):
                margin += w_data[p] * dense[w_indices[p]]
            node = children[node, 1 if margin > 0 else 0]
        for p in range(leaf_ptr[node], leaf_ptr[node + 1]):
            label = leaf_labels[p]
            if sums[label] == 0:
                proposed[n_proposed] = label
                n_proposed += 1
            sums[label] += leaf_values[p]
    return n_proposed


@njit(cache=True, nogil=True)
def _rank_anew(proposed, shares, dense, squared_norm, tail, labels, scores):
    """Offer the proposed labels with alpha log P + (1 - alpha) log s (Jain et al. 2016, section 6).

    |x - mu| is at least ||x| - |mu||, which bounds a score from above before any dot product is made. Labels are taken
    in the order of their bounds, until none that is left can be among the k best; the result is the same as for all.
    """
    c_ptr, c_indices, c_data, squared_norms, alpha, gamma = tail
    bounds = np.empty(proposed.shape[0], np.float32)
    for q in range(proposed.shape[0]):
        least = np.sqrt(squared_norm) - np.sqrt(squared_norms[proposed[q]])
        bounds[q] = alpha * np.log(shares[q]) + (_ONE - alpha) * _log_chance(least * least, gamma)
    last = labels.shape[0] - 1
    for q in np.argsort(-bounds):
        if labels[last] >= 0 and bounds[q] + _ROUNDING * (_ONE + abs(bounds[q])) < scores[last]:
            break
        label = proposed[q]
        dot = _ZERO
        for p in range(c_ptr[label], c_ptr[label + 1]):
            dot += c_data[p] * dense[c_indices[p]]
        squared_distance = squared_norm - dot - dot + squared_norms[label]
        score = alpha * np.log(shares[q]) + (_ONE - alpha) * _log_chance(squared_distance, gamma)
        offer(label, score, labels, scores)


@njit(cache=True, nogil=True, inline="always")
def _log_chance(squared_distance, gamma):
    """log(1 / (1 + exp(gamma/2 d^2))), without overflow."""
    z = _HALF * gamma * squared_distance
    return -(max(z, _ZERO) + np.log1p(np.exp(-abs(z))))
