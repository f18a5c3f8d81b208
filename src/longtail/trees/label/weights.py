"""Trained label trees as flat arrays, as they are saved, memory-mapped when loaded, and searched."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from longtail.core.check_arrays import Types, check_starts, check_within
from longtail.core.compiled import njit
from longtail.core.state import State
from longtail.errors import ModelError
from longtail.trees.label.nodes import TrainedNode
from longtail.trees.label.tree import LabelTree, levels_of

_LARGEST = np.iinfo(np.int16).max


@dataclass(frozen=True, eq=False)
class TreeModel:
    """A label tree with its weights, as flat arrays; node and edge numbers are those of `LabelTree`.

    The features of node v are the rows `row_start[v]` to `row_start[v + 1]` of `features`, ascending within a node. A
    node stores its weights, from `first_value[v]` on, in the form that takes less memory (`is_dense[v]`):

    dense    `dense_values` has, row by row, one value per child.
    sparse   Row r of the node has the entries `offsets[first_offset[v] + r]` to the next offset of `sparse_children`
             (numbered within the node) and `sparse_values`.

    Weights are multiples of the `scale` of their edge. Sixteen bits are precise enough: rounding to them is finer than
    what a duality gap leaves open.
    """

    child_start: NDArray[np.int64]
    child: NDArray[np.int32]
    bias: NDArray[np.float32]
    scale: NDArray[np.float32]
    row_start: NDArray[np.int64]
    features: NDArray[np.int32]
    is_dense: NDArray[np.bool_]
    first_value: NDArray[np.int64]
    dense_values: NDArray[np.int16]
    first_offset: NDArray[np.int64]
    offsets: NDArray[np.uint32]
    sparse_children: NDArray[np.unsignedinteger[Any]]
    sparse_values: NDArray[np.int16]
    _most: dict[int, int] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        for name, array in self.to_arrays().items():
            object.__setattr__(self, name, read_only(array))

    @classmethod
    def of(cls, tree: LabelTree, nodes: Sequence[TrainedNode]) -> TreeModel:
        """Join the trained nodes of a tree, in the order of their ids."""
        n_children = np.diff(tree.child_start)
        most = int(n_children.max())
        child_type = np.uint8 if most <= 1 << 8 else np.uint16 if most <= 1 << 16 else np.uint32
        n_rows = np.asarray([node.features.size for node in nodes])
        n_entries = np.asarray([node.values.size for node in nodes])
        sparse_bytes = 4 * (n_rows + 1) + (2 + np.dtype(child_type).itemsize) * n_entries
        is_dense = 2 * n_rows * n_children <= sparse_bytes
        scales, values = zip(*(_in_sixteen_bits(node) for node in nodes), strict=True)
        dense = [_dense(node, v) for node, v, yes in zip(nodes, values, is_dense, strict=True) if yes]
        loose = [(node, v) for node, v, yes in zip(nodes, values, is_dense, strict=True) if not yes]
        return cls(
            tree.child_start,
            tree.child,
            np.concatenate([node.bias for node in nodes]),
            np.concatenate(scales),
            _starts(n_rows),
            np.concatenate([node.features for node in nodes]),
            is_dense,
            np.where(is_dense, _starts(is_dense * n_rows * n_children)[:-1], _starts(~is_dense * n_entries)[:-1]),
            _joined(dense, np.int16),
            _starts(~is_dense * (n_rows + 1))[:-1],
            _joined([node.starts for node, _ in loose], np.uint32),
            _joined([node.children for node, _ in loose], child_type),
            _joined([v for _, v in loose], np.int16),
        )

    @property
    def n_nodes(self) -> int:
        return int(self.child_start.size - 1)

    def arrays(self) -> tuple[NDArray[Any], ...]:
        """Return all arrays in the order of the fields, as the kernels take them."""
        return tuple(self.to_arrays().values())

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return all arrays by name; `TreeModel(**arrays)` undoes it."""
        return {part.name: getattr(self, part.name) for part in fields(self) if part.init}

    @classmethod
    def from_state(cls, state: State) -> TreeModel:
        """Return the tree whose arrays are in a state; call `check` before it is used."""
        n_edges = state.array("child", np.int32, (None,)).size
        n_nodes = state.array("is_dense", np.bool_, (None,)).size
        wanted: dict[str, tuple[Types, int | None]] = {
            "child_start": (np.int64, n_nodes + 1), "child": (np.int32, n_edges), "bias": (np.float32, n_edges),
            "scale": (np.float32, n_edges), "row_start": (np.int64, n_nodes + 1), "features": (np.int32, None),
            "is_dense": (np.bool_, n_nodes), "first_value": (np.int64, n_nodes), "dense_values": (np.int16, None),
            "first_offset": (np.int64, n_nodes), "offsets": (np.uint32, None),
            "sparse_children": ((np.uint8, np.uint16, np.uint32), None), "sparse_values": (np.int16, None),
        }  # fmt: skip
        return cls(**{name: state.array(name, types, (size,)) for name, (types, size) in wanted.items()})

    def check(self, n_features: int, n_labels: int) -> None:
        """Raise ModelError unless the edges make a tree and all numbers are inside the arrays that they index."""
        n_nodes = self.n_nodes
        if n_nodes < 1 or not (self.child >= 0).any():
            raise ModelError("the tree has no labels")
        check_starts("child_start", self.child_start, self.child.size)
        check_within("child", self.child, -n_nodes, n_labels)
        below = np.flatnonzero(self.child < 0)
        node, parent = -1 - self.child[below], np.searchsorted(self.child_start, below, side="right") - 1
        # Every node but the root has one parent, with a lower number: then a search visits a node once and ends.
        if (np.bincount(node, minlength=n_nodes) != (np.arange(n_nodes) > 0)).any() or (node <= parent).any():
            raise ModelError("the array child does not describe a tree")
        check_starts("row_start", self.row_start, self.features.size)
        check_within("features", self.features, 0, n_features)
        most = int(np.diff(self.child_start).max())
        check_within("sparse_children", self.sparse_children, 0, most)
        if self.sparse_children.size != self.sparse_values.size:
            raise ModelError("the arrays sparse_children and sparse_values must have the same length")
        sizes = self.dense_values.size, self.offsets.size, self.sparse_values.size
        node = _first_beyond(
            self.child_start, self.row_start, self.is_dense, self.first_value, self.first_offset, self.offsets, *sizes
        )
        if node >= 0:
            raise ModelError(f"the weights of node {node} are outside the arrays of weights")

    def most_candidates(self, beam: int) -> int:
        """Return the most labels that a search can find: on each level those of the `beam` largest nodes."""
        if beam not in self._most:
            levels = levels_of(self.child_start, self.child)
            n_labels = np.diff(np.concatenate([[0], np.cumsum(self.child >= 0)])[self.child_start])
            by_level = (np.sort(n_labels[levels == level])[::-1] for level in range(int(levels.max()) + 1))
            self._most[beam] = sum(int(sizes[:beam].sum()) for sizes in by_level)
        return self._most[beam]


def _in_sixteen_bits(node: TrainedNode) -> tuple[NDArray[np.float32], NDArray[np.int16]]:
    """Return the scale of each child, such that its largest weight just fits, and the weights in these units."""
    largest = _largest_of_each(node.children, node.values, node.bias.size)
    scale = (np.maximum(largest, np.float32(1e-30)) / np.float32(_LARGEST)).astype(np.float32)
    return scale, np.rint(node.values / scale[node.children]).astype(np.int16)


@njit(cache=True, nogil=True)
def _largest_of_each(children, values, n_children):
    """Return the largest absolute value per child; np.maximum.at is many times slower."""
    largest = np.zeros(n_children, np.float32)
    for i in range(children.shape[0]):
        largest[children[i]] = max(largest[children[i]], abs(values[i]))
    return largest


@njit(cache=True, nogil=True)
def _first_beyond(child_start, row_start, is_dense, first_value, first_offset, offsets, n_dense, n_offsets, n_sparse):
    """Return the first node with weights outside the arrays, or -1."""
    for v in range(is_dense.shape[0]):
        n_rows, n_children, value = row_start[v + 1] - row_start[v], child_start[v + 1] - child_start[v], first_value[v]
        if is_dense[v]:
            if value < 0 or value > n_dense or (n_children > 0 and n_rows > (n_dense - value) // n_children):
                return v
            continue
        first = first_offset[v]
        if value < 0 or value > n_sparse or first < 0 or n_rows + 1 > n_offsets or first > n_offsets - n_rows - 1:
            return v
        for r in range(first, first + n_rows + 1):
            if np.int64(offsets[r]) > n_sparse - value:
                return v
    return -1


def _dense(node: TrainedNode, values: NDArray[np.int16]) -> NDArray[np.int16]:
    table = np.zeros((node.features.size, node.bias.size), np.int16)
    table[np.repeat(np.arange(node.features.size), np.diff(node.starts)), node.children] = values
    return table.ravel()


def _starts(sizes: NDArray[np.integer[Any]]) -> NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


def _joined(parts: Sequence[NDArray[Any]], dtype: type) -> NDArray[Any]:
    return np.concatenate([np.empty(0, dtype), *(part.astype(dtype) for part in parts)])


def read_only(array: NDArray[Any]) -> NDArray[Any]:
    """Return a read-only view: mapped arrays are read-only, and Numba compiles writable and read-only separately."""
    view = array.view()
    view.flags.writeable = False
    return view
