"""Kernels that select the k best labels: one insertion routine, and the loops that feed it.

Order everywhere: higher score first, then lower label id. k is small (5 to 100), so insertion into a sorted list beats
a heap, and the common case (worse than the k-th) is a single comparison.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from longtail.core.compiled import njit

Ints = NDArray[np.int32]
Floats = NDArray[np.float32]


@njit(cache=True, nogil=True, inline="always")
def offer(label: int, score: float, labels: Ints, scores: Floats) -> None:
    """Insert (label, score) into the sorted lists `labels`, `scores` of one point, if it is good enough.

    A NaN goes to the front and stays in the list, where `Predictions` finds and refuses it: it must not push out a
    label and then give way to a worse one.
    """
    last = labels.shape[0] - 1
    if labels[last] >= 0 and (score < scores[last] or (score == scores[last] and label > labels[last])):
        return
    if labels[last] >= 0 and np.isnan(scores[last]):
        return
    j = last
    while j > 0 and (
        labels[j - 1] < 0
        or score > scores[j - 1]
        or (score == scores[j - 1] and label < labels[j - 1])
        or np.isnan(score)
    ):
        labels[j] = labels[j - 1]
        scores[j] = scores[j - 1]
        j -= 1
    labels[j] = label
    scores[j] = score


@njit(cache=True, nogil=True)
def top_of_dense_rows(matrix: Floats, labels: Ints, scores: Floats) -> None:
    """Fill `labels` and `scores` with the best columns of each row."""
    for i in range(matrix.shape[0]):
        for j in range(matrix.shape[1]):
            offer(j, matrix[i, j], labels[i], scores[i])


@njit(cache=True, nogil=True)
def top_of_sparse_rows(indptr: NDArray[np.int64], indices: Ints, data: Floats, labels: Ints, scores: Floats) -> None:
    """Fill `labels` and `scores` with the best stored entries of each CSR row."""
    for i in range(indptr.shape[0] - 1):
        for p in range(indptr[i], indptr[i + 1]):
            offer(indices[p], data[p], labels[i], scores[i])
