"""Training points, and the state of one wave of labels, as arrays of a device."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from longtail.errors import DataError
from longtail.linear.gpu.backend import GROUP, Backend

_MOST_FEATURES = 2**32 // (GROUP * 4)  # byte offsets into the weights of a group have 32 bits
_MOST_ENTRIES = 2**32 - 2**16


class Points:
    """Rows in random order, as the kernels read them.

    Parameters
    ----------
    backend : Backend
        Device to put them on.
    X : (n, D) csr_matrix of float32
        Features.
    weights : (n,) array of float32 or None
        Point weights; all 1 for None.
    bias : float
        Value of the constant feature.
    seed : int
        Seed of the order.
    """

    def __init__(
        self, backend: Backend, X: sparse.csr_matrix, weights: NDArray[np.float32] | None, bias: float, seed: int
    ) -> None:
        xp = backend.xp
        self.n_points, self.n_features = X.shape
        self.bias = bias
        check_size(X)
        indptr, indices, values = X.indptr.astype(np.uint64), xp.asarray(X.indices), xp.asarray(X.data)
        order = np.random.default_rng(seed).permutation(self.n_points).astype(np.uint32)
        self.places = np.empty(self.n_points, np.uint32)  # where each point went
        self.places[order] = np.arange(self.n_points, dtype=np.uint32)
        # Features by falling frequency: the rows of the most frequent ones lie together, in `look` in shared memory.
        counts = xp.bincount(indices, minlength=self.n_features)
        by_count = xp.argsort(
            (np.uint64(2**32 - 1) - counts.astype(np.uint64)) << np.uint64(32)
            | xp.arange(self.n_features, dtype=np.uint64)
        )
        self.ranks = xp.empty(self.n_features, np.uint32)
        self.ranks[by_count] = xp.arange(self.n_features, dtype=np.uint32)
        self.hot = min(backend.hot, self.n_features)
        # Each row in the order of these numbers.
        ranked = self.ranks[indices]
        device_indptr = xp.asarray(indptr)
        rows = _row_numbers(xp, device_indptr, int(indptr[-1]))
        by_row = xp.argsort(rows << np.uint64(32) | ranked.astype(np.uint64))
        ranked, values = ranked[by_row], values[by_row]
        padded = (np.diff(indptr)[order] + np.uint64(3)) & ~np.uint64(3)
        ends = np.cumsum(padded)
        n_entries = int(ends[-1]) if ends.size else 0
        self.entries = xp.zeros((n_entries + 8, 2), np.uint32)
        self.rows = xp.zeros((self.n_points + 1, 4), np.uint32)
        self.hot_counts = xp.zeros(self.n_points, np.uint32)
        starts = xp.asarray((ends - padded).astype(np.uint32))
        on_device = None if weights is None else xp.asarray(weights)
        backend.build_rows((device_indptr, ranked, values), xp.asarray(order), starts, on_device, self)


def check_size(X: sparse.csr_matrix) -> None:
    """Raise DataError for a training set whose rows 32-bit offsets cannot address."""
    if X.shape[1] > _MOST_FEATURES or X.nnz + 3 * X.shape[0] > _MOST_ENTRIES or X.shape[0] >= 2**31:
        raise DataError(
            f"X has {X.shape[0]:,} points, {X.shape[1]:,} features and {X.nnz:,} values; a GPU takes up to 2 billion "
            f"points, {_MOST_FEATURES:,} features and {_MOST_ENTRIES:,} values; set device='cpu'"
        )


def _row_numbers(xp: Any, indptr: Any, n: int) -> Any:
    return xp.searchsorted(indptr[1:], xp.arange(n, dtype=np.uint64), side="right").astype(np.uint64)


class Wave:
    """Weights, dual variables and lists of the labels that train together.

    Parameters
    ----------
    backend : Backend
        Device to put them on.
    points : Points
        Training points.
    members : (indptr, points)
        Points per label in CSC form, as numbered by `Points.places`.
    costs : (n_labels,) array
        C times the weight of each label's positives.
    cost : float
        C.
    first_group : int, default 0
        Number of the first group among the groups of all labels; orders of points go by it.
    """

    def __init__(
        self,
        backend: Backend,
        points: Points,
        members: tuple[NDArray, NDArray],
        costs: NDArray,
        cost: float,
        *,
        first_group: int = 0,
    ) -> None:
        xp = backend.xp
        self.n_labels, self.cost, self.first_group = costs.size, cost, first_group
        self.n_groups = -(-self.n_labels // GROUP)
        self.n_chains = self.n_groups * (GROUP // backend.width)
        n_columns = self.n_groups * GROUP
        self.label_ptr = xp.asarray(members[0].astype(np.uint32))
        self.label_points = xp.asarray(np.append(members[1], 0).astype(np.uint32))  # never empty
        self._set_positives(xp, members, backend.width)
        self.costs = xp.full(n_columns, cost, np.float32)
        self.costs[: self.n_labels] = xp.asarray(costs.astype(np.float32))
        self.live = xp.zeros(n_columns, np.float32)
        self.bias_weights = xp.zeros(n_columns, np.float32)
        self.squares = xp.zeros(n_columns, np.float32)
        self.list_sizes, self.list_sides = xp.zeros(self.n_chains, np.uint32), xp.zeros(self.n_chains, np.uint32)
        self.visits = xp.zeros(1, np.uint64)
        self.W = xp.empty((self.n_groups, points.n_features, GROUP), np.float32)
        self.duals = xp.empty((self.n_groups, points.n_points, GROUP), np.float32)
        self.lists = xp.empty((self.n_chains, 2, points.n_points), np.uint32)
        self.masks = xp.empty((self.n_groups, points.n_points), np.uint32)

    def _set_positives(self, xp: Any, members: tuple[NDArray, NDArray], width: int) -> None:
        """Points that some label of a chain has, per chain."""
        chains = np.repeat(np.arange(self.n_labels) // width, np.diff(members[0]))
        keys = xp.unique(xp.asarray(chains.astype(np.uint64) << np.uint64(32) | members[1].astype(np.uint64)))
        counts = xp.bincount((keys >> np.uint64(32)).astype(np.int64), minlength=self.n_chains)
        self.positive_ptr = xp.zeros(self.n_chains + 1, np.uint32)
        self.positive_ptr[1:] = xp.cumsum(counts)
        self.positives = xp.concatenate([(keys & np.uint64(2**32 - 1)).astype(np.uint32), xp.zeros(1, np.uint32)])

    def free_all_but_weights(self) -> None:
        """Drop what pruning does not need."""
        self.duals = self.lists = self.masks = None

    @staticmethod
    def bytes_per_group(n_points: int, n_features: int, width: int) -> int:
        """Return how much memory 32 labels take."""
        lists = 8 * n_points * (GROUP // width)
        return 4 * GROUP * (n_points + n_features) + lists + 4 * n_points
