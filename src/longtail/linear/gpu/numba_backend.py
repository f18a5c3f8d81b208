"""The operations of `Backend` as plain loops on a CPU: what each kernel of kernels.cu computes, one point at a time.

With it the rounds, waves and lists of this package run without a GPU. Orders are those of kernels.cu with one warp per
chain, so the results of a GPU that works in order agree with these up to rounding. Not meant for speed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from longtail.core.compiled import njit
from longtail.linear.gpu import numba_kernels as kernels
from longtail.linear.gpu.backend import GROUP, Pruned, Start, pruned
from longtail.linear.options import LOSSES


class NumbaBackend:
    """A CPU behind the interface of a GPU.

    Parameters
    ----------
    loss : {"squared-hinge", "hinge", "logistic"}
        Loss function.
    width : int, default 8
        Labels per chain.
    memory : int, default 2**30
        Memory that it claims to have.
    """

    xp: Any = np
    name = "CPU"
    hot = 64
    warps = 1
    memory_errors: tuple[type[BaseException], ...] = (MemoryError,)
    device_errors: tuple[type[BaseException], ...] = ()

    def __init__(self, loss: str, width: int = 8, memory: int = 2**30) -> None:
        self.loss, self.width, self.memory = LOSSES[loss], width, memory

    @contextmanager
    def active(self) -> Iterator[None]:
        yield

    def free_bytes(self) -> int:
        return self.memory

    def release(self) -> None: ...

    def to_host(self, array: Any) -> NDArray[Any]:
        return np.asarray(array)

    def build_rows(self, csr: tuple[Any, Any, Any], order: Any, starts: Any, weights: Any, points: Any) -> None:
        every = np.ones(points.n_points, np.float32) if weights is None else weights
        kernels.build_rows(
            *csr, order, starts, every, points.entries, points.rows, points.rows.view(np.float32), points.hot_counts,
            np.float32(points.bias), points.hot,
        )  # fmt: skip

    def fill(self, points: Any, wave: Any, start: Start | None) -> None:
        wave.W[:] = 0 if start is None else start.weights[None, :, None]
        wave.duals[:] = -0.0 if start is None else -start.duals[None, :, None]
        wave.bias_weights[:] = 0 if start is None else start.bias_weight
        a0 = np.zeros(points.n_points, np.float32) if start is None else start.duals
        kernels.set_positives(
            *_data(points), wave.W, wave.duals, wave.bias_weights, a0, wave.label_ptr, wave.label_points, wave.n_labels
        )

    def seed_lists(self, points: Any, wave: Any, start: Start) -> None:
        for chain in range(wave.n_chains):
            own = wave.positives[wave.positive_ptr[chain] : wave.positive_ptr[chain + 1]]
            seeded = np.concatenate([start.support, own[~(start.duals[own] > 0)]])
            wave.lists[chain, 0, : seeded.size] = seeded
            wave.list_sizes[chain], wave.list_sides[chain] = seeded.size, 0

    def steps(
        self, points: Any, wave: Any, chains: Any, *, full: bool, max_passes: int, goal: float, seed: int, warps: Any
    ) -> None:
        assert (warps == 1).all()
        kernels.steps(
            self.loss, self.width, *_data(points), wave.W, wave.duals, wave.bias_weights, wave.squares, wave.live,
            wave.costs, np.float32(wave.cost), chains, wave.positive_ptr, wave.positives, wave.lists, wave.list_sizes,
            wave.list_sides, full, max_passes, goal, seed, wave.first_group * (GROUP // self.width), wave.visits,
        )  # fmt: skip

    def look(self, points: Any, wave: Any, groups: Any, eps: float) -> NDArray[np.float64]:
        sums = np.zeros((2, groups.size * GROUP))
        kernels.look(
            self.loss, *_data(points), wave.W, wave.duals, wave.bias_weights, wave.live, wave.costs,
            np.float32(wave.cost), groups, np.float32(eps), sums, wave.masks,
        )  # fmt: skip
        per, lanes = GROUP // self.width, (1 << self.width) - 1
        for place, group in enumerate(groups):
            for within in range(per):
                found = np.flatnonzero((wave.masks[place] >> np.uint32(within * self.width)) & np.uint32(lanes))
                chain = group * per + within
                wave.lists[chain, 0, : found.size] = found
                wave.list_sizes[chain], wave.list_sides[chain] = found.size, 0
        return sums

    def squares(self, wave: Any, groups: Any, other: Any = None) -> NDArray[np.float64]:
        off = wave.W[groups].astype(np.float64) - (0 if other is None else other)
        return np.asarray((off**2).sum(axis=1).ravel())

    def weights_of_duals(self, points: Any, wave: Any, groups: Any, *, ordered: bool) -> tuple[Any, Any]:
        weights = np.zeros((groups.size, points.n_features, GROUP), np.float32)
        bias_weights = np.zeros(groups.size * GROUP, np.float32)
        kernels.weights_of_duals(*_data(points), wave.duals, groups, weights, bias_weights)
        return weights, bias_weights

    def prune(self, points: Any, wave: Any, columns: Any, ids: Any, threshold: float, dtype: str) -> Pruned:
        by_feature = wave.W.transpose(1, 0, 2).reshape(points.n_features, -1)[points.ranks][:, columns]
        features, places = np.nonzero((np.abs(by_feature) >= np.float32(threshold)) & (by_feature != 0))
        indptr = np.zeros(points.n_features + 1, np.int64)
        np.cumsum(np.bincount(features, minlength=points.n_features), out=indptr[1:])
        return pruned(self, indptr, ids[places], by_feature[features, places], ids, dtype)

    def best(self, X: tuple[Any, Any, Any], weights: tuple[Any, Any, Any], intercepts: Any, k: int, span: int) -> Any:
        keys = np.zeros((X[0].size - 1, k), np.uint64)
        for first in range(0, intercepts.size, span):
            scores = _scores(X, weights, intercepts, first, min(first + span, intercepts.size))
            bits = scores.view(np.uint32)
            rising = np.where(bits >> np.uint32(31), ~bits, bits | np.uint32(2**31)).astype(np.uint64)
            ids = ~np.arange(first, first + scores.shape[1], dtype=np.uint32)
            every = np.where(scores > -np.inf, rising << np.uint64(32) | ids, np.uint64(0))
            keys = np.sort(np.hstack([keys, every]), axis=1)[:, ::-1][:, :k]
        return keys


def _data(points: Any) -> tuple:
    return (points.entries, points.entries.view(np.float32), points.rows, points.rows.view(np.float32), points.bias)


@njit(cache=True, nogil=True)
def _scores(X, weights, intercepts, first, end):
    indptr, indices, values = X
    w_ptr, w_indices, w_values = weights
    out = np.empty((indptr.shape[0] - 1, end - first), np.float32)
    for i in range(out.shape[0]):
        out[i] = intercepts[first:end]
        for p in range(indptr[i], indptr[i + 1]):
            f = np.int64(indices[p])
            for q in range(w_ptr[f], w_ptr[f + 1]):
                label = np.int64(w_indices[q])
                if first <= label < end:
                    out[i, label - first] += values[p] * w_values[q]
    return out
