"""Cluster labels, given as sparse rows of unit length.

Both clusterings are spherical: they compare a label with the centroids by cosine, and centroids have unit length. Only
one dense vector is held in memory (2-means), or BLOCK centroids at a time (k-means).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from longtail.core.compiled import copy_to, njit
from longtail.linear.simd import BLOCK, block_dots

_MAX_ROUNDS = 50
_LEAST_GAIN = 1e-4  # of the mean cosine to the own centroid, per round; the value of Parabel's reference code


def two_balanced_clusters(
    rows: sparse.csr_matrix, labels: NDArray[np.int32], rng: np.random.Generator
) -> NDArray[np.int64]:
    """Split labels into two clusters of equal size by balanced spherical 2-means.

    Parameters
    ----------
    rows : (L, D) csr_matrix of float32
        Representations of all labels, at unit length.
    labels : (n,) array of int32
        Labels to split, at least two.
    rng : Generator
        Draws the two labels that are the first centroids.

    Returns
    -------
    (n,) array of int64
        Cluster, 0 or 1, per label; cluster 0 has one label more if n is odd.

    Notes
    -----
    Prabhu et al. 2018, algorithm 2: a round sorts the labels by the difference of their cosines to the two centroids
    and cuts in the middle.
    """
    first, second = rng.choice(labels.size, 2, replace=False)
    clusters = _two_means(rows.indptr, rows.indices, rows.data, labels, first, second, rows.shape[1])
    return np.asarray(clusters)


def balanced_clusters(
    rows: sparse.csr_matrix, labels: NDArray[np.int32], k: int, max_leaf: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Split labels into at most k clusters of equal size, by halving them again and again.

    Parameters
    ----------
    rows : (L, D) csr_matrix of float32
        Representations of all labels, at unit length.
    labels : (n,) array of int32
        Labels to split, more than `max_leaf`.
    k : int
        Number of clusters, a power of two; fewer where that keeps the nodes further down full.
    max_leaf : int
        Clusters of at most this size are not halved.
    rng : Generator
        Draws the first centroids of every halving.

    Returns
    -------
    (n,) array of int64
        Cluster per label, numbered from 0.
    """
    halvings = max(1, int(np.ceil(np.log2(labels.size / max_leaf))))  # until no cluster exceeds max_leaf
    at_once = k.bit_length() - 1
    # The node that gets fewer children should be near the root: there are few of them, and nodes with two children
    # cost as much as nodes with k, whose classifiers train side by side.
    groups = [np.arange(labels.size)]
    for _ in range(halvings % at_once or at_once):
        groups = [half for group in groups for half in _halves(rows, labels, group, max_leaf, rng)]
    clusters = np.empty(labels.size, np.int64)
    for number, group in enumerate(groups):
        clusters[group] = number
    return clusters


def _halves(
    rows: sparse.csr_matrix,
    labels: NDArray[np.int32],
    group: NDArray[np.intp],
    max_leaf: int,
    rng: np.random.Generator,
) -> list[NDArray[np.intp]]:
    if group.size <= max_leaf:
        return [group]
    second = two_balanced_clusters(rows, labels[group], rng) == 1
    return [group[~second], group[second]]


@njit(cache=True, nogil=True)
def _two_means(indptr, indices, data, labels, first, second, n_dimensions):
    n = labels.shape[0]
    difference = np.zeros(n_dimensions, np.float32)  # of the two centroids; the cut depends on nothing else
    _add_row(indptr, indices, data, labels[first], np.float32(1), difference)
    _add_row(indptr, indices, data, labels[second], np.float32(-1), difference)
    sums = np.zeros((2, n_dimensions), np.float32)
    scores = np.empty(n, np.float32)
    clusters = np.zeros(n, np.int64)
    n_first = (n + 1) // 2
    before = -2.0
    for _ in range(_MAX_ROUNDS):
        for i in range(n):
            total = np.float32(0)
            for p in range(indptr[labels[i]], indptr[labels[i] + 1]):
                total += data[p] * difference[indices[p]]
            scores[i] = total
        order = np.argsort(-scores, kind="mergesort")
        for i in range(n):
            clusters[order[i]] = 0 if i < n_first else 1
        sums[:] = 0
        for i in range(n):
            _add_row(indptr, indices, data, labels[i], np.float32(1), sums[clusters[i]])
        length = np.sqrt(np.array([np.sum(sums[0] * sums[0]), np.sum(sums[1] * sums[1])]))
        # The cosines of a cluster's members to its unit centroid add up to the length of the sum of the members.
        quality = (length[0] + length[1]) / n
        if quality - before < _LEAST_GAIN:
            break
        before = quality
        scale = np.float32(1) / np.maximum(length, np.float32(1e-12))
        for j in range(n_dimensions):
            difference[j] = sums[0, j] * scale[0] - sums[1, j] * scale[1]
    return clusters


@njit(cache=True, nogil=True, inline="always")
def _add_row(indptr, indices, data, row, factor, target):
    for p in range(indptr[row], indptr[row + 1]):
        target[indices[p]] += factor * data[p]


def k_clusters(
    rows: sparse.csr_matrix, labels: NDArray[np.int32], k: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Split labels into clusters of any size by spherical k-means.

    Parameters
    ----------
    rows : (L, D) csr_matrix of float32
        Representations of all labels, at unit length.
    labels : (n,) array of int32
        Labels to split.
    k : int
        Number of clusters, at most n.
    rng : Generator
        Draws the k labels that are the first centroids.

    Returns
    -------
    (n,) array of int64
        Cluster, 0 to k - 1, per label; some clusters may be empty.

    Notes
    -----
    Clusters need not be balanced (Khandagale et al. 2020, section 3.2), so similar labels stay together.
    """
    seeds = rng.choice(labels.size, k, replace=False)
    return np.asarray(_k_means(*_cut_out(rows.indptr, rows.indices, rows.data, labels, rows.shape[1]), seeds))


@njit(cache=True, nogil=True)
def _cut_out(indptr, indices, data, labels, n_dimensions):
    """Return the rows of these labels in CSR form with their dimensions renumbered, and the number of dimensions.

    A node deep in a tree uses few dimensions, so that its centroids stay in the processor's cache. The order of
    dimensions is kept.
    """
    n = labels.shape[0]
    start, number = np.zeros(n + 1, np.int64), np.zeros(n_dimensions, np.uint32)
    for i in range(n):
        start[i + 1] = start[i] + indptr[labels[i] + 1] - indptr[labels[i]]
        for p in range(indptr[labels[i]], indptr[labels[i] + 1]):
            number[indices[p]] = 1
    used = 0
    for j in range(n_dimensions):
        if number[j]:
            number[j] = used
            used += 1
    local, values = np.empty(start[n], np.uint32), np.empty(start[n], np.float32)
    for i in range(n):
        first = indptr[labels[i]]
        for p in range(start[i + 1] - start[i]):
            local[start[i] + p], values[start[i] + p] = number[indices[first + p]], data[first + p]
    return start, local, values, used


@njit(cache=True, nogil=True)
def _k_means(indptr, indices, data, n_dimensions, seeds):
    n, k = indptr.shape[0] - 1, seeds.shape[0]
    clusters = np.full(n, -1, np.int64)
    clusters[seeds] = np.arange(k)  # at first each cluster holds its seed alone
    best = np.empty(n, np.float32)
    chosen = np.empty(n, np.int64)
    before = -2.0
    centroids = np.empty((n_dimensions, BLOCK), np.float32)
    cosines = np.empty(BLOCK, np.float32)
    for _ in range(_MAX_ROUNDS):
        best[:] = -np.inf
        for start in range(0, k, BLOCK):
            centroids[:] = 0
            for i in range(n):
                if start <= clusters[i] < start + BLOCK:
                    b = clusters[i] - start
                    for p in range(indptr[i], indptr[i + 1]):
                        centroids[indices[p], b] += data[p]
            scale = _inverse_lengths(centroids)
            for i in range(n):
                block_dots(centroids, indices, data, indptr[i], indptr[i + 1], cosines)
                for b in range(min(BLOCK, k - start)):
                    if cosines[b] * scale[b] > best[i]:
                        best[i], chosen[i] = cosines[b] * scale[b], start + b
        copy_to(clusters, chosen)
        quality = np.sum(best) / n
        if quality - before < _LEAST_GAIN:
            break
        before = quality
    return clusters


@njit(cache=True, nogil=True)
def _inverse_lengths(centroids):
    squares = np.zeros(BLOCK, np.float32)
    for j in range(centroids.shape[0]):
        for b in range(BLOCK):
            squares[b] += centroids[j, b] * centroids[j, b]
    return np.float32(1) / np.sqrt(np.maximum(squares, np.float32(1e-24)))
