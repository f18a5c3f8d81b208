"""A trained label tree as flat arrays: what is saved, mapped when loaded, and searched."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from longtail.trees.label.nodes import TrainedNode
from longtail.trees.label.tree import LabelTree, depth_of


@dataclass(frozen=True, eq=False)
class TreeModel:
    """A label tree with its weights, as flat arrays; node and edge numbers are those of `LabelTree`.

    The features of node v are rows `row_start[v]` to `row_start[v + 1]`: `features` (rising within a node); the weights
    of row r are entries `entry_start[r]` to `entry_start[r + 1]`: `entry_child` (counted within the node) and `values`.
    """

    child_start: NDArray[np.int64]
    child: NDArray[np.int32]
    bias: NDArray[np.float32]
    row_start: NDArray[np.int64]
    features: NDArray[np.int32]
    entry_start: NDArray[np.unsignedinteger[Any]]
    entry_child: NDArray[np.unsignedinteger[Any]]
    values: NDArray[np.float32]

    def __post_init__(self) -> None:
        for field in fields(self):
            object.__setattr__(self, field.name, read_only(getattr(self, field.name)))

    @classmethod
    def of(cls, tree: LabelTree, nodes: Sequence[TrainedNode]) -> TreeModel:
        most = int(np.diff(tree.child_start).max())
        child_type = np.uint8 if most <= 1 << 8 else np.uint16 if most <= 1 << 16 else np.uint32
        n_entries = sum(node.values.size for node in nodes)
        starts, before = [np.zeros(1, np.int64)], 0
        for node in nodes:
            starts.append(before + node.starts[1:])
            before += node.values.size
        return cls(
            tree.child_start,
            tree.child,
            np.concatenate([node.bias for node in nodes]),
            np.concatenate([[0], np.cumsum([node.features.size for node in nodes])]).astype(np.int64),
            np.concatenate([node.features for node in nodes]),
            np.concatenate(starts).astype(np.uint32 if n_entries < 1 << 32 else np.uint64),
            np.concatenate([node.children for node in nodes]).astype(child_type),
            np.concatenate([node.values for node in nodes]),
        )

    @property
    def n_nodes(self) -> int:
        return int(self.child_start.size - 1)

    def arrays(self) -> tuple[NDArray[Any], ...]:
        """All arrays in the order of the fields, as the kernels take them."""
        return tuple(getattr(self, field.name) for field in fields(self))

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def most_candidates(self, beam: int) -> int:
        """Labels that a search can come across at most: those of the largest nodes that fit into its beams."""
        is_label = np.concatenate([[0], np.cumsum(self.child >= 0)])
        labels_of_node = np.sort(np.diff(is_label[self.child_start]))[::-1]
        return int(labels_of_node[: beam * depth_of(self.child_start, self.child)].sum())


def read_only(array: NDArray[Any]) -> NDArray[Any]:
    """A view that cannot be written: mapped arrays are such, and Numba compiles anew for each kind."""
    view = array.view()
    view.flags.writeable = False
    return view
