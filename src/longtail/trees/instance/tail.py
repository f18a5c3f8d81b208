"""Tail classifiers (Jain et al. 2016, section 6): what PfastreXML knows of each label beside the trees.

The chance of a label at x is 1 / (1 + exp(gamma/2 |x - mu|^2)). The paper has one centre mu a label, the mean of its
training points ("approximation"). `TailPoints` leaves the points where they are: each is a centre of its own.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from longtail.core.state import State


@dataclass(frozen=True, eq=False)
class Centres:
    """mu_l of every label, and |mu_l|^2; a label without points has an empty row."""

    matrix: sparse.csr_matrix  # (labels, features)
    squared_norms: NDArray[np.float32]

    @classmethod
    def of(cls, X: sparse.csr_matrix, Y: sparse.csr_matrix) -> Centres:
        members = Y.T.tocsr()
        counts = np.diff(members.indptr)
        shares = np.repeat(1 / np.maximum(counts, 1), counts).astype(np.float32)
        means = sparse.csr_matrix((shares, members.indices, members.indptr), shape=members.shape) @ X
        matrix = sparse.csr_matrix(means, dtype=np.float32)
        matrix.sort_indices()
        return cls(matrix, _squared_norms(matrix))

    def to_state(self) -> State:
        state = State(arrays={"squared_norms": self.squared_norms})
        state.put_csr("means", self.matrix)
        return state

    @classmethod
    def from_state(cls, state: State) -> Centres:
        return cls(state.get_csr("means"), state.arrays["squared_norms"])


@dataclass(frozen=True, eq=False)
class TailPoints:
    """The training points, their squared lengths, and their labels."""

    X: sparse.csr_matrix  # (points, features)
    squared_norms: NDArray[np.float32]
    Y: sparse.csr_matrix  # (points, labels)

    @classmethod
    def of(cls, X: sparse.csr_matrix, Y: sparse.csr_matrix) -> TailPoints:
        return cls(X, _squared_norms(X), Y)

    def to_state(self) -> State:
        state = State(arrays={"squared_norms": self.squared_norms})
        state.put_csr("X", self.X)
        state.put_csr("Y", self.Y)
        return state

    @classmethod
    def from_state(cls, state: State) -> TailPoints:
        return cls(state.get_csr("X"), state.arrays["squared_norms"], state.get_csr("Y"))


def _squared_norms(matrix: sparse.csr_matrix) -> NDArray[np.float32]:
    return np.asarray(matrix.multiply(matrix).sum(axis=1), np.float32).ravel()
