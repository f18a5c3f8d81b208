"""Trained label trees as flat arrays, as they are saved, memory-mapped when loaded, and searched."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from longtail.core.check_arrays import Types, check_starts, check_within
from longtail.core.compiled import njit
from longtail.core.memory import read_only
from longtail.core.state import State
from longtail.errors import ModelError
from longtail.trees.label.earlier import earlier_form
from longtail.trees.label.feature_index import FeatureIndex, indexed
from longtail.trees.label.nodes import TrainedNode
from longtail.trees.label.rows import bytes_of_child, child_in, packed_rows, starts_of, weights_of_row
from longtail.trees.label.tree import LabelTree, levels_of

_LARGEST = np.iinfo(np.int16).max


@dataclass(frozen=True, eq=False)
class TreeModel:
    """A label tree with its weights, as flat arrays; node and edge numbers are those of `LabelTree`.

    The features of node v are the rows `row_start[v]` to `row_start[v + 1]` of `features`, ascending within a node. The
    weights of row r are a range of `words`. Counted from `first_word[v]`, it begins at

    r * (number of children)        in a node whose rows are all full (`is_dense[v]`);
    offsets[first_offset[v] + r]    in other nodes; the row ends at the next offset.

    A full row has one word per child, its weight. Any other row is shorter, and first has the numbers of its children
    within the node, in one, two or four bytes each (`packed_rows`), then their weights. A row takes the form that is
    shorter: those of frequent features, which a search meets most, are full and need no numbers.

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
    first_word: NDArray[np.int64]
    words: NDArray[np.int16]
    first_offset: NDArray[np.int64]
    offsets: NDArray[np.uint32]
    _index: list[FeatureIndex] = field(default_factory=list, init=False, repr=False)
    _most: dict[int, int] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        for name, array in self.to_arrays().items():
            object.__setattr__(self, name, read_only(array))

    @classmethod
    def of(cls, tree: LabelTree, nodes: Sequence[TrainedNode]) -> TreeModel:
        """Join the trained nodes of a tree, in the order of their ids."""
        scales, values = zip(*(_in_sixteen_bits(node) for node in nodes), strict=True)
        return cls.joined(
            tree.child_start,
            tree.child,
            np.concatenate([node.bias for node in nodes]),
            np.concatenate(scales),
            starts_of([node.features.size for node in nodes]),
            np.concatenate([node.features for node in nodes]),
            [packed_rows(node.starts, node.children, v, node.bias.size) for node, v in zip(nodes, values, strict=True)],
        )

    @classmethod
    def joined(
        cls,
        child_start: NDArray[np.int64],
        child: NDArray[np.int32],
        bias: NDArray[np.float32],
        scale: NDArray[np.float32],
        row_start: NDArray[np.int64],
        features: NDArray[np.int32],
        rows: Sequence[tuple[NDArray[np.int16], NDArray[np.uint32]]],
    ) -> TreeModel:
        """Return a tree, given what `packed_rows` returned for each of its nodes."""
        words, offsets = ([part[i] for part in rows] for i in (0, 1))
        return cls(
            child_start,
            child,
            bias,
            scale,
            row_start,
            features,
            np.asarray([not part.size for part in offsets]),
            starts_of([part.size for part in words])[:-1],
            np.concatenate(words),
            starts_of([part.size for part in offsets])[:-1],
            np.concatenate(offsets),
        )

    @property
    def n_nodes(self) -> int:
        return int(self.child_start.size - 1)

    def arrays(self) -> tuple[NDArray[Any], ...]:
        """Return what the kernels take: the arrays in the order of the fields, the bytes of `words`, the index."""
        if not self._index:
            self._index.append(indexed(self.row_start, self.features))
        return *self.to_arrays().values(), self.words.view(np.uint8), *self._index[0]

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return all arrays by name; `TreeModel(**arrays)` undoes it."""
        return {part.name: getattr(self, part.name) for part in fields(self) if part.init}

    @classmethod
    def from_state(cls, state: State) -> TreeModel:
        """Return the tree whose arrays are in a state, also of an earlier form; call `check` before it is used."""
        if "sparse_values" in state.arrays:
            return cls.joined(*earlier_form(state))
        n_edges = state.array("child", np.int32, (None,)).size
        n_nodes = state.array("is_dense", np.bool_, (None,)).size
        wanted: dict[str, tuple[Types, int | None]] = {
            "child_start": (np.int64, n_nodes + 1), "child": (np.int32, n_edges), "bias": (np.float32, n_edges),
            "scale": (np.float32, n_edges), "row_start": (np.int64, n_nodes + 1), "features": (np.int32, None),
            "is_dense": (np.bool_, n_nodes), "first_word": (np.int64, n_nodes), "words": (np.int16, None),
            "first_offset": (np.int64, n_nodes), "offsets": (np.uint32, None),
        }  # fmt: skip
        return cls(**{name: state.array(name, types, (size,)) for name, (types, size) in wanted.items()})

    def row(self, node: int, r: int) -> tuple[NDArray[np.int64], NDArray[np.int16]]:
        """Return the children that row r of a node has weights for, numbered within the node, and these weights."""
        n_children = int(self.child_start[node + 1] - self.child_start[node])
        first, size = int(self.first_word[node]) + r * n_children, n_children
        if not self.is_dense[node]:
            here = int(self.first_offset[node]) + r
            first, size = int(self.first_word[node]) + int(self.offsets[here]), int(self.offsets[here + 1])
            size -= int(self.offsets[here])
        words = self.words[first : first + size]
        if size == n_children:
            return np.arange(n_children), words
        of_child = bytes_of_child(n_children)
        n = weights_of_row(size, of_child, words.itemsize)
        children = words.view(np.uint8)[: n * of_child].view(f"<u{of_child}")
        return children.astype(np.int64), words[size - n :]

    def check(self, n_features: int, n_labels: int) -> None:
        """Raise ModelError unless the edges make a tree and all numbers are inside the arrays that they index."""
        n_nodes = self.n_nodes
        if n_nodes < 1 or not (self.child >= 0).any():
            raise ModelError("the tree has no labels")
        check_starts("child_start", self.child_start, self.child.size)
        if (self.child_start[1:] == self.child_start[:-1]).any():
            raise ModelError("the array child_start has a node without children")
        check_within("child", self.child, -n_nodes, n_labels)
        below = np.flatnonzero(self.child < 0)
        node, parent = -1 - self.child[below], np.searchsorted(self.child_start, below, side="right") - 1
        # Every node but the root has one parent, with a lower number: then a search visits a node once and ends.
        if (np.bincount(node, minlength=n_nodes) != (np.arange(n_nodes) > 0)).any() or (node <= parent).any():
            raise ModelError("the array child does not describe a tree")
        check_starts("row_start", self.row_start, self.features.size)
        check_within("features", self.features, 0, n_features)
        node = _first_beyond(
            self.child_start, self.row_start, self.is_dense, self.first_word, self.first_offset, self.offsets,
            self.words.size, self.words.view(np.uint8),
        )  # fmt: skip
        if node >= 0:
            raise ModelError(f"the weights of node {node} are outside the array of weights, or of no child")

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
def _first_beyond(child_start, row_start, is_dense, first_word, first_offset, offsets, n_words, in_bytes):
    """Return the first node with weights outside the words or with a child that it does not have, or -1.

    A child number of one byte is not looked at: `rows.MARGINS` has a place for every byte.
    """
    of_word = in_bytes.shape[0] // max(n_words, 1)
    for v in range(is_dense.shape[0]):
        n_rows, n_children, start = row_start[v + 1] - row_start[v], child_start[v + 1] - child_start[v], first_word[v]
        if start < 0 or start > n_words:
            return v
        if is_dense[v]:
            if n_children > 0 and n_rows > (n_words - start) // n_children:
                return v
            continue
        first = first_offset[v]
        if first < 0 or n_rows + 1 > offsets.shape[0] or first > offsets.shape[0] - n_rows - 1:
            return v
        least, most, end = _sizes_of_rows(offsets[first : first + n_rows + 1])
        if least < 0 or most > n_children or end > n_words - start:
            return v
        of_child = bytes_of_child(n_children)
        for r in range(first, first + n_rows if of_child > 1 else first):
            size = np.int64(offsets[r + 1]) - np.int64(offsets[r])
            at = of_word * (start + np.int64(offsets[r]))
            for e in range(weights_of_row(size, of_child, of_word) if size < n_children else 0):
                if child_in(in_bytes, at, e, of_child) >= n_children:
                    return v
    return -1


@njit(cache=True, nogil=True)
def _sizes_of_rows(offsets):
    """Return the least and the largest size of a row, and where the last one ends; no branch, so vectors do it."""
    least = most = end = np.int64(0)
    for r in range(offsets.shape[0] - 1):
        size = np.int64(offsets[r + 1]) - np.int64(offsets[r])
        least, most, end = min(least, size), max(most, size), max(end, np.int64(offsets[r + 1]))
    return least, most, end
