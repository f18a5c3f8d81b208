"""Weights of several waves as one matrix by feature."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numba import njit
from scipy import sparse

from longtail.core.threads import each_in_threads
from longtail.linear.gpu.backend import Pruned

_ENTRIES_AT_A_TIME = 2**20


def joined_by_feature(parts: Sequence[Pruned], shape: tuple[int, int]) -> sparse.csr_matrix:
    """Return the weights of all parts as one (features, labels) matrix, labels rising within a feature.

    Parameters
    ----------
    parts : sequence of Pruned
        Each has its own labels.
    shape : (int, int)
        Number of features and labels.
    """
    if len(parts) == 1:
        part = parts[0]
        indptr = part.indptr if part.indptr[-1] >= 2**31 else part.indptr.astype(np.int32)
        return sparse.csr_matrix((part.values, part.indices, indptr), shape=shape, copy=False)
    indptr = np.sum([part.indptr for part in parts], axis=0) if parts else np.zeros(shape[0] + 1, np.int64)
    indices, values = np.empty(indptr[-1], np.int32), np.empty(indptr[-1], np.float32)
    cuts = np.searchsorted(indptr, np.arange(0, indptr[-1] + _ENTRIES_AT_A_TIME, _ENTRIES_AT_A_TIME))
    cuts = np.unique(np.concatenate([[0], np.minimum(cuts, shape[0]), [shape[0]]]))

    def work(number: int) -> None:
        first, end = int(cuts[number]), int(cuts[number + 1])
        filled = indptr[first:end].copy()
        for part in parts:
            _append(part.indptr, part.indices, part.values, first, end, filled, indices, values)
        _sort_rows(indptr, first, end, indices, values)

    each_in_threads(work, range(cuts.size - 1))
    # SciPy has one type for both index arrays.
    wide = indptr[-1] >= 2**31
    index = np.int64 if wide else np.int32
    return sparse.csr_matrix((values, indices.astype(index, copy=False), indptr.astype(index)), shape=shape, copy=False)


@njit(cache=True, nogil=True)
def _append(indptr, part_indices, part_values, first, end, filled, indices, values):
    for f in range(first, end):
        at = filled[f - first]
        for p in range(indptr[f], indptr[f + 1]):
            indices[at], values[at] = part_indices[p], part_values[p]
            at += 1
        filled[f - first] = at


@njit(cache=True, nogil=True)
def _sort_rows(indptr, first, end, indices, values):
    for f in range(first, end):
        row = slice(indptr[f], indptr[f + 1])
        order = np.argsort(indices[row])
        indices[row], values[row] = indices[row][order], values[row][order]
