"""Trees over points as flat arrays: nodes are numbered from 0 over all trees, sparse rows hold their contents."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from longtail.core.check_arrays import Array, check_above_zero, check_columns, check_within
from longtail.core.compiled import njit
from longtail.core.memory import read_only
from longtail.core.state import State
from longtail.errors import ModelError

_INFINITY = int(np.array(np.inf, np.float32).view(np.uint32))


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
        # NumPy takes twice as long, so it only says what is wrong.
        for name, matrix in (("hyperplanes", self.hyperplanes), ("leaves", self.leaves)):
            if _largest(read_only(matrix.indices.view(np.uint32)), np.uint32(0)) >= matrix.shape[1]:
                check_columns(name, matrix)
        # A label counts as new while its sum is 0. Numbers above 0 have the bits 1 to those of infinity.
        if _largest(read_only(self.leaves.data.view(np.uint32)), np.uint32(1)) >= _INFINITY - 1:
            check_above_zero("leaves.data", self.leaves.data)

    @classmethod
    def from_arrays(cls, arrays: dict[str, Array], n_features: int, n_labels: int) -> Forest:
        """Rebuild a forest from the arrays of `to_state`, which is what a checkpoint keeps."""
        n_nodes = int(arrays["intercepts"].size)
        widths = {"hyperplanes": n_features, "leaves": n_labels}
        shapes = {f"{name}.shape": [n_nodes, n] for name, n in widths.items()}
        return cls.from_state(State(shapes, arrays), n_features, n_labels)


@njit(cache=True, nogil=True)
def _largest(numbers, less):
    """Return the largest of numbers - less, where -1 is the largest of all."""
    largest = np.uint32(0)
    for i in range(numbers.shape[0]):
        largest = max(largest, np.uint32(numbers[i] - less))
    return largest
