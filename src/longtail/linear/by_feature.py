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
_TIERS = 8  # lists of a common feature ...
_STEP = np.float32(0.5**0.5)  # ... of which each has values down to this share of the one before


class ByFeature(NamedTuple):
    """A matrix by feature: each feature has one list of points, or several, by falling value; in a list points rise."""

    lists: NDArray[np.int64]  # (D + 1,) the lists of feature f are lists[f]..lists[f + 1] - 1
    ptr: NDArray[np.int64]  # (lists + 1,) where each list begins
    points: NDArray[np.uint32]
    values: NDArray[np.float32]
    bounds: NDArray[np.float32]  # (lists,) no value of the list is above it

    def ptr_of_features(self) -> NDArray[np.int64]:
        """Return where each feature begins."""
        return self.ptr[self.lists]


def by_feature(X: sparse.csr_matrix, workspace: Workspace, *, common: float = np.inf) -> ByFeature:
    """Return the entries of X by feature; points and values are in the workspace.

    Features with at least `common` points have _TIERS lists: whoever looks for large products can leave out the lists
    of small values, which are most of the entries.
    """
    counts = np.zeros(X.shape[1], np.int64)
    for first in range(0, X.nnz, _ENTRIES_AT_A_TIME):
        counts += np.bincount(X.indices[first : first + _ENTRIES_AT_A_TIME], minlength=X.shape[1])
    lists = np.zeros(X.shape[1] + 1, np.int64)
    np.cumsum(np.where(counts >= common, _TIERS, 1), out=lists[1:])
    rows = (read_only(X.indptr.astype(np.int64)), read_only(X.indices), read_only(X.data))
    bounds, ptr = np.zeros(lists[-1], np.float32), np.zeros(lists[-1] + 1, np.int64)
    _set_bounds(rows[1], rows[2], lists, bounds)
    _count(rows[1], rows[2], lists, bounds, ptr)
    np.cumsum(ptr, out=ptr)
    points, values = workspace.zeros((X.nnz,), np.uint32), workspace.zeros((X.nnz,))
    _fill(*rows, lists, bounds, ptr[:-1].copy(), points, values)
    return ByFeature(*map(read_only, (lists, ptr, points, values, bounds)))


@njit(cache=True, nogil=True, allocates=False)
def _set_bounds(indices, data, lists, bounds):
    """Set the bound of a feature's first list to its largest value, and those of others by falling powers."""
    for p in range(indices.shape[0]):
        first = lists[indices[p]]
        bounds[first] = max(bounds[first], data[p])
    for f in range(lists.shape[0] - 1):
        for own in range(lists[f] + 1, lists[f + 1]):
            bounds[own] = bounds[own - 1] * _STEP


@njit(cache=True, nogil=True, allocates=False)
def _list_of(f, value, lists, bounds):
    own = lists[f]
    while own + 1 < lists[f + 1] and value <= bounds[own + 1]:
        own += 1
    return own


@njit(cache=True, nogil=True, allocates=False)
def _count(indices, data, lists, bounds, ptr):
    for p in range(indices.shape[0]):
        ptr[_list_of(indices[p], data[p], lists, bounds) + 1] += 1


@njit(cache=True, nogil=True, allocates=False)
def _fill(indptr, indices, data, lists, bounds, filled, points, values):
    for i in range(indptr.shape[0] - 1):
        for p in range(indptr[i], indptr[i + 1]):
            own = _list_of(indices[p], data[p], lists, bounds)
            points[filled[own]], values[filled[own]] = i, data[p]
            filled[own] += 1


def moments(entries: ByFeature, weights: NDArray[np.float32]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return per feature: the weight of its points, the weighted sum of its squares."""
    ptr = entries.ptr_of_features()
    weight, square = (np.zeros(ptr.size - 1, np.float32) for _ in range(2))
    for features in _pieces(ptr):
        first, end = ptr[features.start], ptr[features.stop]
        values, own = entries.values[first:end], weights[entries.points[first:end]].astype(np.float64)
        used = features.start + np.flatnonzero(np.diff(ptr[features.start : features.stop + 1]))
        starts = ptr[used] - first
        weight[used] = np.add.reduceat(own, starts)
        square[used] = np.add.reduceat(own * np.square(values, dtype=np.float64), starts)
    return weight, square


def _pieces(ptr: NDArray[np.int64]) -> Iterator[slice]:
    """Cut features into ranges with entries, each of a bounded number unless a single feature has more."""
    first, n = 0, ptr.size - 1
    while first < n and ptr[first] < ptr[n]:
        end = int(np.searchsorted(ptr, ptr[first] + _ENTRIES_AT_A_TIME, side="right")) - 1
        end = min(max(end, int(np.searchsorted(ptr, ptr[first], side="right"))), n)
        yield slice(first, end)
        first = end
