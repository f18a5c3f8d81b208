"""Tail classifiers: what PfastreXML learns about each label besides the trees.

The paper's (Jain et al. 2016, section 6) are generative: the probability of a label at x is
1 / (1 + exp(gamma/2 |x - mu|^2)), where mu is the mean of its training points. Linear classifiers are trained to
separate these points from all others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from longtail.core.check_arrays import check_columns
from longtail.core.state import State
from longtail.linear.dismec import DiSMEC

# More than DiSMEC's default: a third of the weights is left and predictions are a third faster, while on the dev points
# of EURLEX57K no metric changes by more than 0.15.
_PRUNE = 0.05
# `PfastreXML` has none of the parameters that DiSMEC would advise to change.
_REMEDY = (
    "their tail classifiers are less exact; duplicate points can cause this: remove the copies, or set another "
    "weighting or tail='means'"
)


@dataclass(frozen=True, eq=False)
class Centres:
    """Mean mu_l of the points of every label, and |mu_l|^2; a label without points has an empty row."""

    matrix: sparse.csr_matrix  # (labels, features)
    squared_norms: NDArray[np.float32]

    @classmethod
    def of(cls, X: sparse.csr_matrix, Y: sparse.csr_matrix) -> Centres:
        """Compute the means of these points."""
        members = Y.T.tocsr()
        counts = np.diff(members.indptr)
        shares = np.repeat(1 / np.maximum(counts, 1), counts).astype(np.float32)
        means = sparse.csr_matrix((shares, members.indices, members.indptr), shape=members.shape) @ X
        matrix = sparse.csr_matrix(means, dtype=np.float32)
        matrix.sort_indices()
        return cls(matrix, np.asarray(matrix.multiply(matrix).sum(axis=1), np.float32).ravel())

    def to_state(self) -> State:
        state = State(arrays={"squared_norms": self.squared_norms})
        state.put_csr("means", self.matrix)
        return state

    @classmethod
    def from_state(cls, state: State, n_features: int, n_labels: int) -> Centres:
        """Undo `to_state`; call `check` before the means are used."""
        norms = state.array("squared_norms", np.float32, (n_labels,))
        return cls(state.get_csr("means", (n_labels, n_features)), norms)

    def check(self) -> None:
        """Raise ModelError unless all numbers are in range."""
        check_columns("means", self.matrix)


@dataclass(frozen=True, eq=False)
class Classifiers:
    """Weights w_l and intercept of every label's linear classifier."""

    weights: sparse.csr_matrix  # (labels, features)
    intercepts: NDArray[np.float32]

    @staticmethod
    def learner(weighting: Any = None, *, n_jobs: int = -1, random_state: int = 0) -> DiSMEC:
        """Return the model that trains them, to be fitted and passed to `of`."""
        learner = DiSMEC(
            weighting=weighting, prune=_PRUNE, weight_dtype="float32", n_jobs=n_jobs, random_state=random_state
        )
        learner.remedy = _REMEDY
        return learner

    @classmethod
    def of(cls, learned: DiSMEC) -> Classifiers:
        """Take the classifiers of a fitted model."""
        return cls(learned.weights_.T.tocsr(), learned.intercept_)

    def to_state(self) -> State:
        state = State(arrays={"intercepts": self.intercepts})
        state.put_csr("weights", self.weights)
        return state

    @classmethod
    def from_state(cls, state: State, n_features: int, n_labels: int) -> Classifiers:
        """Undo `to_state`; call `check` before the classifiers are used."""
        intercepts = state.array("intercepts", np.float32, (n_labels,))
        return cls(state.get_csr("weights", (n_labels, n_features)), intercepts)

    def check(self) -> None:
        """Raise ModelError unless all numbers are in range."""
        check_columns("weights", self.weights)
