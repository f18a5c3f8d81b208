"""Which labels train together.

A pass over the unsettled points of a block visits every point that is unsettled for some label of it, so labels whose
points look alike belong together: their unsettled points are largely the same ones. And labels of like frequency belong
together, because a frequent label has many unsettled points, which its neighbours would have to visit as well. So:
labels by falling frequency, cut into strata, and within a stratum similar labels side by side.
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
    """All labels that have points, as blocks of at most BLOCK; the blocks that take longest (frequent labels) first."""
    counts = np.bincount(Y.indices, minlength=Y.shape[1])
    order = np.argsort(-counts, kind="stable")
    order = order[counts[order] > 0]
    if order.size <= BLOCK:
        return [order] if order.size else []
    rng = np.random.default_rng(seed)
    vectors = label_vectors(X, Y, rng)
    strata = (order[first : first + _STRATUM] for first in range(0, order.size, _STRATUM))
    return [block for stratum in strata for block in _halved(stratum, vectors, rng)]


def label_vectors(X: sparse.csr_matrix, Y: sparse.csr_matrix, rng: np.random.Generator) -> NDArray[np.float32]:
    """The mean of each label's points, less the mean of all, in a random projection; unit length."""
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
    """Halve by balanced spherical 2-means until a part fits a block; all blocks but one of a stratum are full."""
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
