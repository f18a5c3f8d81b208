"""Choose which labels train together in a block.

A pass over the unsettled points of a block visits every point that is unsettled for at least one of its labels. Labels
with similar points therefore belong in one block: they share most of their unsettled points. Labels of similar
frequency belong together too: a frequent label has many unsettled points, and every other label of its block would
have to visit them. So labels are sorted by falling frequency and cut into strata, and each stratum is cut into blocks
of similar labels.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from longtail.linear.simd import BLOCK

_STRATUM = 32 * BLOCK
_DIMENSIONS = 32  # of the random projection in which labels are compared
_POINTS_AT_A_TIME = 16384
_ROUNDS = 8  # of the balanced 2-means


def label_blocks(X: sparse.csr_matrix, Y: sparse.csr_matrix, *, seed: int = 0) -> list[NDArray[np.intp]]:
    """Cut all labels that have points into blocks of at most BLOCK labels.

    Parameters
    ----------
    X : (n, D) csr_matrix of float32
        Features.
    Y : (n, L) csr_matrix
        Labels; relevances count as 1.
    seed : int, default 0
        Seed of the random projection and of the clustering.

    Returns
    -------
    list of arrays of label ids
        The blocks that take longest to train (frequent labels) come first.
    """
    counts = np.bincount(Y.indices, minlength=Y.shape[1])
    order = np.argsort(-counts, kind="stable")
    order = order[counts[order] > 0]
    if order.size <= BLOCK:
        return [order] if order.size else []
    rng = np.random.default_rng(seed)
    present = sparse.csr_matrix((np.ones_like(Y.data), Y.indices, Y.indptr), shape=Y.shape)
    vectors = label_vectors(X, present, rng)
    strata = (order[first : first + _STRATUM] for first in range(0, order.size, _STRATUM))
    return [block for stratum in strata for block in _halved(stratum, vectors, rng)]


def label_vectors(X: sparse.csr_matrix, Y: sparse.csr_matrix, rng: np.random.Generator) -> NDArray[np.float32]:
    """Return the mean of each label's points minus the mean of all points, randomly projected, at unit length."""
    projection = rng.standard_normal((X.shape[1], _DIMENSIONS), dtype=np.float32)
    total = np.zeros(_DIMENSIONS, np.float64)
    vectors = np.zeros((Y.shape[1], _DIMENSIONS), np.float32)
    for first in range(0, X.shape[0], _POINTS_AT_A_TIME):
        points = slice(first, first + _POINTS_AT_A_TIME)
        projected = X[points] @ projection
        total += projected.sum(axis=0)
        vectors += Y[points].T @ projected
    counts = np.bincount(Y.indices, minlength=Y.shape[1])
    vectors -= np.outer(counts, total / X.shape[0]).astype(np.float32)
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.maximum(lengths, np.float32(1e-12)), np.float32)


def _halved(labels: NDArray[np.intp], vectors: NDArray[np.float32], rng: np.random.Generator) -> list[NDArray[np.intp]]:
    """Halve by balanced spherical 2-means until a half fits into a block; all blocks of a stratum but one are full."""
    if labels.size <= BLOCK:
        return [labels]
    own = vectors[labels]
    half = -(-labels.size // (2 * BLOCK)) * BLOCK
    centre = own[rng.choice(labels.size, 2, replace=False)]
    order = np.arange(labels.size)
    for _ in range(_ROUNDS):
        order = np.argsort(own @ (centre[1] - centre[0]), kind="stable")
        centre = np.stack([own[order[:half]].mean(axis=0), own[order[half:]].mean(axis=0)])
    return _halved(labels[order[:half]], vectors, rng) + _halved(labels[order[half:]], vectors, rng)
