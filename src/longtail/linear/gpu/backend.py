"""What the rounds ask of a device: arrays, and a dozen kernels on them.

`LaunchedKernels` calls kernels.cu; `cuda.py` compiles it for a GPU. `numba_backend.py` has the same operations as plain
loops on a CPU, so that the control flow above can be tested without a GPU.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from longtail.errors import TrainingError

GROUP = 32  # labels side by side in memory
STEP_THREADS = 512  # of a CTA of `steps`: 16 warps
_LOOK_THREADS = 1024
_POINTS_PER_CTA = 2048  # of `look`; like the next, fixed, so that sums do not depend on what else is in a wave
_FEATURES_PER_CTA = 4096
_STAGED = 256  # entries of a row that `steps` holds in shared memory, twice per warp


class GpuError(TrainingError):
    """The device, not the data, is why work cannot go on: the CPU could do it."""


@dataclass(frozen=True, eq=False)
class Start:
    """The solution of a label without positives, from which labels start: arrays of the device."""

    weights: Any  # (features,)
    duals: Any  # (points,)
    bias_weight: float
    support: Any  # points with a dual variable above zero


@dataclass(frozen=True, eq=False)
class Pruned:
    """Weights of a wave by feature, on the host."""

    indptr: NDArray[np.int64]
    classifiers: NDArray[np.unsignedinteger]  # rising within a feature
    values: NDArray[np.floating]


class Backend(Protocol):
    """A device with arrays (`xp` is NumPy or CuPy) and kernels; `points` and `wave` are those of this package."""

    xp: Any
    name: str
    width: int  # labels per chain
    hot: int  # most frequent features, of which `look` keeps a copy at hand
    warps: int  # points of a chain that are worked on at the same time
    memory_errors: tuple[type[BaseException], ...]  # raised where memory is short
    device_errors: tuple[type[BaseException], ...]  # raised where the device is lost or out of order

    def active(self) -> AbstractContextManager[Any]:
        """Return the context in which this thread works on the device."""

    def free_bytes(self) -> int:
        """Return how much memory can still be taken."""

    def release(self) -> None:
        """Give memory back that no array uses any more."""

    def to_host(self, array: Any) -> NDArray[Any]:
        """Return an array as one of NumPy."""

    def build_rows(self, csr: tuple[Any, Any, Any], order: Any, starts: Any, weights: Any, points: Any) -> None:
        """Fill `points.entries`, `rows` and `hot_counts`."""

    def fill(self, points: Any, wave: Any, start: Start | None) -> None:
        """Set weights and dual variables to `start`, or to zero, with the positives of each label in place."""

    def seed_lists(self, points: Any, wave: Any, start: Start) -> None:
        """Set each chain's list to the support of `start` and its positives."""

    def steps(
        self, points: Any, wave: Any, chains: Any, *, full: bool, max_passes: int, goal: float, seed: int, warps: Any
    ) -> None:
        """Pass over all points (if `full`), then over the lists of these chains; `warps`: points in flight of each."""

    def look(self, points: Any, wave: Any, groups: Any, eps: float) -> NDArray[np.float64]:
        """Make new lists; return loss and dual value of the labels of these groups, (2, labels)."""

    def squares(self, wave: Any, groups: Any, other: Any = None) -> NDArray[np.float64]:
        """Return |w|^2 per label, or |w - v|^2 with `other` as v; without the bias weight."""

    def weights_of_duals(self, points: Any, wave: Any, groups: Any, *, ordered: bool) -> tuple[Any, Any]:
        """Return weights and bias weights computed from the dual variables; `ordered`: the same bits every time."""

    def prune(self, points: Any, wave: Any, columns: Any, ids: Any, threshold: float, dtype: str) -> Pruned:
        """Return the weights of at least `threshold`.

        `columns`, `ids`: places in the wave and numbers of classifiers, by rising number. `dtype`: type of the weights;
        float32 is taken, too, where a weight exceeds the range of float16.
        """

    def best(self, X: tuple[Any, Any, Any], weights: tuple[Any, Any, Any], intercepts: Any, k: int, span: int) -> Any:
        """Return the keys of the k best labels per row, (rows, k) uint64; `span`: labels scored at a time."""


class LaunchedKernels(ABC):
    """The operations of `Backend` as launches of kernels.cu; a subclass has `xp` and `_launch`."""

    xp: Any
    width: int
    hot: int
    processors: int

    @abstractmethod
    def _launch(self, kernel: str, grid: Sequence[int], threads: int, arguments: tuple, shared: int = 0) -> None: ...

    @abstractmethod
    def to_host(self, array: Any) -> NDArray[Any]: ...

    def build_rows(self, csr: tuple[Any, Any, Any], order: Any, starts: Any, weights: Any, points: Any) -> None:
        arguments = (
            *csr, order, starts, weights, points.entries, points.rows, points.hot_counts,
            np.uint32(points.n_points), np.float32(points.bias), np.uint32(points.hot),
        )  # fmt: skip
        self._launch("build_rows", (-(-(points.n_points + 1) // 8), 1), 256, arguments)

    def fill(self, points: Any, wave: Any, start: Start | None) -> None:
        w0, a0 = (None, None) if start is None else (start.weights, start.duals)
        sizes = (np.uint64(wave.W.size), np.uint64(wave.duals.size))
        shape = (np.uint32(points.n_features), np.uint32(points.n_points))
        self._launch("fill", (8 * self.processors, 1), 256, (wave.W, wave.duals, w0, a0, *sizes, *shape))
        wave.bias_weights[:] = 0 if start is None else start.bias_weight
        arguments = (
            *_data(points), wave.W, wave.duals, wave.bias_weights, a0, wave.label_ptr, wave.label_points,
            np.uint32(wave.n_labels),
        )  # fmt: skip
        self._launch("set_positives", (-(-wave.n_labels // 8), 1), 256, arguments)

    def seed_lists(self, points: Any, wave: Any, start: Start) -> None:
        arguments = (
            start.support, np.uint32(start.support.size), start.duals, wave.positive_ptr, wave.positives,
            np.uint32(points.n_points), wave.lists, wave.list_sizes, wave.list_sides,
        )  # fmt: skip
        self._launch("seed_lists", (wave.n_chains, 1), 32, arguments)

    def steps(
        self, points: Any, wave: Any, chains: Any, *, full: bool, max_passes: int, goal: float, seed: int, warps: Any
    ) -> None:
        arguments = (
            *_data(points), wave.W, wave.duals, wave.bias_weights, wave.squares, wave.live, wave.costs,
            np.float32(wave.cost), chains, wave.positive_ptr, wave.positives, wave.lists, wave.list_sizes,
            wave.list_sides, np.int32(full), np.int32(max_passes), np.float32(goal), np.uint32(seed),
            np.uint32(wave.first_group * (GROUP // self.width)), warps, wave.visits,
        )  # fmt: skip
        shared = STEP_THREADS // 32 * 2 * _STAGED * 8
        self._launch("steps", (int(chains.size), 1), STEP_THREADS, arguments, shared)

    def look(self, points: Any, wave: Any, groups: Any, eps: float) -> NDArray[np.float64]:
        n_groups = int(groups.size)
        n_parts = -(-points.n_points // _POINTS_PER_CTA)
        sums = self.xp.empty((n_parts, n_groups, 2, GROUP), np.float64)
        arguments = (
            points.entries, points.rows, points.hot_counts, np.uint32(points.n_points), np.uint32(points.n_features),
            np.float32(points.bias), wave.W, wave.duals, wave.bias_weights, wave.live, wave.costs,
            np.float32(wave.cost), groups, np.uint32(points.hot), np.uint32(_POINTS_PER_CTA), np.float32(eps), sums,
            wave.masks,
        )  # fmt: skip
        self._launch("look", (n_parts, n_groups), _LOOK_THREADS, arguments, points.hot * GROUP * 4)
        lists = (np.uint32(points.n_points), wave.lists, wave.list_sizes, wave.list_sides)
        self._launch("make_lists", (GROUP // self.width, n_groups), 256, (wave.masks, groups, *lists))
        return self.to_host(_sum_in_order(sums)).transpose(1, 0, 2).reshape(2, -1)

    def squares(self, wave: Any, groups: Any, other: Any = None) -> NDArray[np.float64]:
        n_features = wave.W.shape[1]
        n_parts = -(-n_features // _FEATURES_PER_CTA)
        sums = self.xp.empty((n_parts, int(groups.size), GROUP), np.float64)
        arguments = (wave.W, other, np.uint32(n_features), groups, np.uint32(_FEATURES_PER_CTA), sums)
        self._launch("norms", (n_parts, int(groups.size)), 256, arguments)
        return self.to_host(_sum_in_order(sums)).ravel()

    def weights_of_duals(self, points: Any, wave: Any, groups: Any, *, ordered: bool) -> tuple[Any, Any]:
        n_groups = int(groups.size)
        weights = self.xp.zeros((n_groups, points.n_features, GROUP), np.float32)
        bias_weights = self.xp.zeros(n_groups * GROUP, np.float32)
        per_warp = points.n_points if ordered else 64
        threads = 32 if ordered else 256
        n_parts = -(-points.n_points // (per_warp * (threads // 32)))
        arguments = (*_data(points), wave.duals, groups, np.uint32(per_warp), weights, bias_weights)
        self._launch("weights_of_duals", (n_parts, n_groups), threads, arguments)
        return weights, bias_weights

    def prune(self, points: Any, wave: Any, columns: Any, ids: Any, threshold: float, dtype: str) -> Pruned:
        xp, D = self.xp, points.n_features
        grid = (-(-D // 8), 1)
        counts = xp.empty(D, np.uint32)
        sizes = (np.uint32(D), np.uint32(wave.n_labels), points.ranks, np.float32(threshold), counts)
        self._launch("prune_count", grid, 256, (wave.W, *sizes))
        ends = xp.zeros(D + 1, np.uint64)
        ends[1:] = xp.cumsum(counts, dtype=np.uint64)
        total = int(ends[-1])
        indices, values = xp.empty(max(total, 1), np.uint32), xp.empty(max(total, 1), np.float32)
        arguments = (
            wave.W, np.uint32(D), np.uint32(columns.size), points.ranks, columns, ids.astype(np.uint32),
            np.float32(threshold), ends,
            indices, values,
        )  # fmt: skip
        self._launch("prune_fill", grid, 256, arguments)
        return pruned(self, ends, indices[:total], values[:total], ids, dtype)

    def best(self, X: tuple[Any, Any, Any], weights: tuple[Any, Any, Any], intercepts: Any, k: int, span: int) -> Any:
        xp = self.xp
        n_points, n_features, n_labels = X[0].size - 1, weights[0].size - 1, intercepts.size
        at_a_time = max(1, min(n_points, 2**28 // span))  # points, so that scores take 1 GB at most
        keys = xp.zeros((n_points, k), np.uint64)
        dense = xp.empty((-(-min(span, n_labels) // GROUP), n_features, GROUP), np.float32)
        out = xp.empty(at_a_time * min(span, n_labels), np.float32)
        for first in range(0, n_labels, span):
            n = min(span, n_labels - first)
            dense[:] = 0
            place = (np.uint32(n_features), np.uint32(first), np.uint32(n), dense)
            self._launch("spread", (-(-n_features // 8), 1), 256, (*weights, *place))
            for row in range(0, n_points, at_a_time):
                rows = min(at_a_time, n_points - row)
                sizes = (np.uint32(row), np.uint32(rows), np.uint32(n_features), dense, intercepts[first : first + n])
                grid = (-(-rows // (8 * 16)), -(-n // GROUP))
                self._launch("scores", grid, 256, (*X, *sizes, np.uint32(n), np.uint32(16), out))
                merged = (out, np.uint32(rows), np.uint32(n), np.uint32(first), np.uint32(k), keys[row : row + rows])
                self._launch("merge_top", (-(-rows // 4), 1), 128, merged, 4 * k * 8)
        return keys


def pruned(backend: Any, indptr: Any, classifiers: Any, values: Any, ids: Any, dtype: str) -> Pruned:
    """Bring pruned weights to the host, in the types in which a model keeps them; `ids` has the type of the numbers."""
    fits = not values.size or float(abs(values).max()) <= float(np.finfo(np.float16).max)
    kept = values.astype(dtype if fits else np.float32)
    host = backend.to_host
    return Pruned(host(indptr).astype(np.int64), host(classifiers.astype(ids.dtype)), host(kept))


def _data(points: Any) -> tuple:
    sizes = (np.uint32(points.n_points), np.uint32(points.n_features), np.float32(points.bias))
    return (points.entries, points.rows, *sizes)


def _sum_in_order(parts: Any) -> Any:
    """Add up the parts one after another: a reduction may choose its order by the shape."""
    total = parts[0]
    for part in range(1, parts.shape[0]):
        total += parts[part]
    return total
