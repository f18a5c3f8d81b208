"""Points by feature, in arrays that may be files, and what is known of each feature."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from longtail.core.compiled import njit
from longtail.core.memory import read_only
from longtail.core.workspace import Workspace

_ENTRIES_AT_A_TIME = 1 << 22


class ByFeature(NamedTuple):
    """A matrix in CSC form, points rising."""

    ptr: NDArray[np.int64]
    points: NDArray[np.uint32]
    values: NDArray[np.float32]


def by_feature(X: sparse.csr_matrix, workspace: Workspace) -> ByFeature:
    """Return the entries of X by feature; points and values are in the workspace."""
    ptr = np.zeros(X.shape[1] + 1, np.int64)
    for first in range(0, X.nnz, _ENTRIES_AT_A_TIME):
        ptr[1:] += np.bincount(X.indices[first : first + _ENTRIES_AT_A_TIME], minlength=X.shape[1])
    np.cumsum(ptr, out=ptr)
    points, values = workspace.zeros((X.nnz,), np.uint32), workspace.zeros((X.nnz,))
    rows = (read_only(X.indptr.astype(np.int64)), read_only(X.indices), read_only(X.data))
    _fill(*rows, ptr[:-1].copy(), points, values)
    return ByFeature(read_only(ptr), read_only(points), read_only(values))


@njit(cache=True, nogil=True)
def _fill(indptr, indices, data, filled, points, values):
    for i in range(indptr.shape[0] - 1):
        for p in range(indptr[i], indptr[i + 1]):
            place = filled[indices[p]]
            points[place], values[place] = i, data[p]
            filled[indices[p]] = place + 1


def moments(
    entries: ByFeature, weights: NDArray[np.float32]
) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.float32]]:
    """Return per feature: its largest absolute value, the weight of its points, the weighted sum of its squares."""
    largest, weight, square = (np.zeros(entries.ptr.size - 1, np.float32) for _ in range(3))
    for features in _pieces(entries.ptr):
        first, end = entries.ptr[features.start], entries.ptr[features.stop]
        values, own = entries.values[first:end], weights[entries.points[first:end]].astype(np.float64)
        used = features.start + np.flatnonzero(np.diff(entries.ptr[features.start : features.stop + 1]))
        starts = entries.ptr[used] - first
        largest[used] = np.maximum.reduceat(np.abs(values), starts)
        weight[used] = np.add.reduceat(own, starts)
        square[used] = np.add.reduceat(own * np.square(values, dtype=np.float64), starts)
    return largest, weight, square


def _pieces(ptr: NDArray[np.int64]) -> Iterator[slice]:
    """Cut features into ranges with entries, each of a bounded number unless a single feature has more."""
    first, n = 0, ptr.size - 1
    while first < n and ptr[first] < ptr[n]:
        end = int(np.searchsorted(ptr, ptr[first] + _ENTRIES_AT_A_TIME, side="right")) - 1
        end = min(max(end, int(np.searchsorted(ptr, ptr[first], side="right"))), n)
        yield slice(first, end)
        first = end
