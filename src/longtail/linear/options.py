"""What a solver is asked for, and what it returns. Nothing here loads Numba: predicting must not wait for solvers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

SQUARED_HINGE, HINGE, LOGISTIC = 0, 1, 2  # losses in kernels
LOSSES = {"squared-hinge": SQUARED_HINGE, "hinge": HINGE, "logistic": LOGISTIC}


@dataclass(frozen=True)
class SolverOptions:
    """Parameters of the solver; `DiSMEC` documents what they mean and has the defaults.

    Parameters
    ----------
    loss : {"squared-hinge", "hinge", "logistic"}
        Loss function.
    C : float
        Cost of the loss, in LIBLINEAR's scaling.
    bias : float
        Value of the constant feature; 0 for none.
    tol : float
        Relative duality gap at which the training of a label ends.
    max_passes : int
        Passes over the training points, at most.
    prune : float
        Weights below this absolute value are dropped.
    keep_duals : bool, default False
        Whether trained blocks keep their dual variables, for a warm start.
    """

    loss: str
    C: float
    bias: float
    tol: float
    max_passes: int
    prune: float
    keep_duals: bool = False


@dataclass(frozen=True)
class TrainedBlock:
    """Outcome of one block: a sparse row of weights per label, in the order of the block's labels."""

    weights: sparse.csr_matrix  # (labels of the block, features)
    intercepts: NDArray[np.float32]  # (labels of the block,)
    gaps: NDArray[np.float64]  # relative duality gap per label when it left
    passes: NDArray[np.int64]  # full passes, inner passes
    duals: sparse.csr_matrix | None = None  # (labels of the block, points), if they are kept

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return everything as plain arrays, for a checkpoint."""
        arrays: dict[str, NDArray[Any]] = {"intercepts": self.intercepts, "gaps": self.gaps, "passes": self.passes}
        for name, matrix in (("weights", self.weights), ("duals", self.duals)):
            if matrix is not None:
                arrays[f"{name}.data"], arrays[f"{name}.indices"] = matrix.data, matrix.indices
                arrays[f"{name}.indptr"], arrays[f"{name}.shape"] = matrix.indptr, np.asarray(matrix.shape, np.int64)
        return arrays

    @classmethod
    def from_arrays(cls, arrays: dict[str, NDArray[Any]]) -> TrainedBlock:
        """Undo `to_arrays`."""

        def matrix(name: str) -> sparse.csr_matrix | None:
            if f"{name}.data" not in arrays:
                return None
            parts = tuple(arrays[f"{name}.{part}"] for part in ("data", "indices", "indptr"))
            return sparse.csr_matrix(parts, shape=tuple(arrays[f"{name}.shape"].tolist()))

        return cls(matrix("weights"), arrays["intercepts"], arrays["gaps"], arrays["passes"], matrix("duals"))
