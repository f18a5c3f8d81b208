"""Trees over points as flat arrays: nodes are numbered from 0 over all trees, sparse rows hold their contents."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from longtail.core.check_arrays import Array, check_above_zero, check_columns, check_within
from longtail.core.state import State
from longtail.errors import ModelError


@dataclass(frozen=True, eq=False)
class Forest:
    """Trees over points.

    A point at node v goes to `children[v, 1]` if `hyperplanes[v] . x + intercepts[v] > 0`, else to `children[v, 0]`. A
    leaf has children -1, and row `leaves[v]` holds its labels.
    """

    roots: NDArray[np.int32]  # (trees,)
    children: NDArray[np.int32]  # (nodes, 2)
    intercepts: NDArray[np.float32]  # (nodes,), 0 for leaves
    hyperplanes: sparse.csr_matrix  # (nodes, features), rows of leaves are empty
    leaves: sparse.csr_matrix  # (nodes, labels), rows of inner nodes are empty

    @property
    def n_nodes(self) -> int:
        return int(self.children.shape[0])

    @classmethod
    def joined(cls, forests: Sequence[Forest]) -> Forest:
        """Join the trees of several forests into one."""
        first = np.concatenate([[0], np.cumsum([forest.n_nodes for forest in forests])[:-1]]).astype(np.int32)
        moved = [np.where(f.children < 0, f.children, f.children + a) for f, a in zip(forests, first, strict=True)]
        return cls(
            np.concatenate([f.roots + a for f, a in zip(forests, first, strict=True)]),
            np.concatenate(moved),
            np.concatenate([f.intercepts for f in forests]),
            sparse.vstack([f.hyperplanes for f in forests], format="csr"),
            sparse.vstack([f.leaves for f in forests], format="csr"),
        )

    def to_state(self) -> State:
        state = State(arrays={"roots": self.roots, "children": self.children, "intercepts": self.intercepts})
        state.put_csr("hyperplanes", self.hyperplanes)
        state.put_csr("leaves", self.leaves)
        return state

    @classmethod
    def from_state(cls, state: State, n_features: int, n_labels: int) -> Forest:
        """Undo `to_state`; call `check` before the forest is used."""
        children = state.array("children", np.int32, (None, 2))
        n_nodes = children.shape[0]
        return cls(
            state.array("roots", np.int32, (None,)),
            children,
            state.array("intercepts", np.float32, (n_nodes,)),
            state.get_csr("hyperplanes", (n_nodes, n_features)),
            state.get_csr("leaves", (n_nodes, n_labels)),
        )

    def check(self) -> None:
        """Raise ModelError unless every way from a root ends in a leaf, and all numbers are in range."""
        children = self.children
        if not self.roots.size:
            raise ModelError("the forest has no trees")
        check_within("roots", self.roots, 0, self.n_nodes)
        check_within("children", children, -1, self.n_nodes)
        inner = children[:, 0] >= 0
        # Nodes have lower numbers than their children, so no way is endless.
        if (inner != (children[:, 1] >= 0)).any() or (children.min(1)[inner] <= np.flatnonzero(inner)).any():
            raise ModelError("the array children does not describe trees")
        check_columns("hyperplanes", self.hyperplanes)
        check_columns("leaves", self.leaves)
        check_above_zero("leaves.data", self.leaves.data)  # a label counts as new while its sum is 0

    @classmethod
    def from_arrays(cls, arrays: dict[str, Array], n_features: int, n_labels: int) -> Forest:
        """Rebuild a forest from the arrays of `to_state`, which is what a checkpoint keeps."""
        n_nodes = int(arrays["intercepts"].size)
        widths = {"hyperplanes": n_features, "leaves": n_labels}
        shapes = {f"{name}.shape": [n_nodes, n] for name, n in widths.items()}
        return cls.from_state(State(shapes, arrays), n_features, n_labels)
