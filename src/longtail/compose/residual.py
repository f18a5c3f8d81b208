"""The blocks of a RankNet at prediction time: NumPy and Numba, no torch.

For a point with candidates c_1 ... c_m (the best labels of the base) and their log-odds z, a block computes

    z_c <- z_c + bias_c + out_c . relu(hidden_bias + sum_j sigmoid(z_{c_j}) in_{c_j})

which is `F = W2 s(W1 f) + f` ("Improving tail label prediction for extreme multi-label learning", section 3.2) with a
sparse f, restricted to the rows of W2 that belong to candidates: m x V operations instead of L x V.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from longtail.core.check_arrays import check_within
from longtail.core.compiled import copy_to, njit
from longtail.core.state import State

Floats = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class ResidualBlocks:
    """Weights of B blocks with V hidden units over R of L labels.

    Labels that the network has not met keep their log-odds and do not reach the hidden units, so the size of the
    network depends on the data that it learned from, not on L.

    Parameters
    ----------
    rows : ndarray of shape (L,)
        Row of each label in the arrays below, or -1 for a label that the network has not met.
    inward : ndarray of shape (B, R, V)
        Rows of W1.
    hidden_bias : ndarray of shape (B, V)
        Bias of the hidden units.
    outward : ndarray of shape (B, R, V)
        Rows of W2.
    bias : ndarray of shape (B, R)
        Bias of the labels.
    """

    rows: NDArray[np.int32]
    inward: Floats
    hidden_bias: Floats
    outward: Floats
    bias: Floats

    def __call__(self, labels: NDArray[np.int32], log_odds: NDArray[np.float64]) -> Floats:
        """Return the new log-odds of candidates (n, m; -1 pads); those of padding do not change."""
        with np.errstate(over="ignore"):  # log-odds too large for float32 are infinite
            result = np.array(log_odds, dtype=np.float32, order="C")
        places = np.where(labels >= 0, self.rows[labels], np.int32(-1))
        _pass_through(places, self.inward, self.hidden_bias, self.outward, self.bias, result)
        return result

    @classmethod
    def none(cls, n_labels: int) -> ResidualBlocks:
        """Return an object without blocks, which does not change log-odds."""
        wide, narrow = np.zeros((0, 0, 1), np.float32), np.zeros((0, 0), np.float32)
        return cls(np.full(n_labels, -1, np.int32), wide, np.zeros((0, 1), np.float32), wide, narrow)

    def to_state(self) -> State:
        return State(arrays=dict(vars(self)))

    @classmethod
    def from_state(cls, state: State, n_labels: int) -> ResidualBlocks:
        """Undo `to_state`, or raise ModelError if the arrays do not fit together."""
        inward = state.array("inward", np.float32, (None, None, None))
        n_blocks, n_rows, n_units = inward.shape
        blocks = cls(
            state.array("rows", np.int32, (n_labels,)),
            inward,
            state.array("hidden_bias", np.float32, (n_blocks, n_units)),
            state.array("outward", np.float32, (n_blocks, n_rows, n_units)),
            state.array("bias", np.float32, (n_blocks, n_rows)),
        )
        # Without blocks nothing is looked up.
        check_within("rows", blocks.rows, -1, n_rows if n_blocks else n_labels)
        return blocks


# Sums in any order: five times as fast, and prediction should cost little beside that of the base.
@njit(cache=True, nogil=True, fastmath={"contract", "reassoc", "nsz"})
def _pass_through(places, inward, hidden_bias, outward, bias, log_odds):
    n_blocks, n_units = hidden_bias.shape
    hidden = np.empty(n_units, np.float32)
    for i in range(places.shape[0]):
        for b in range(n_blocks):
            copy_to(hidden, hidden_bias[b])
            for j in range(places.shape[1]):
                if places[i, j] >= 0:
                    active = np.float32(1) / (np.float32(1) + np.exp(-log_odds[i, j]))
                    row = inward[b, places[i, j]]
                    for v in range(n_units):
                        hidden[v] += active * row[v]
            for v in range(n_units):
                hidden[v] = max(hidden[v], np.float32(0))
            for j in range(places.shape[1]):
                if places[i, j] >= 0:
                    row = outward[b, places[i, j]]
                    change = bias[b, places[i, j]]
                    for v in range(n_units):
                        change += hidden[v] * row[v]
                    log_odds[i, j] += change
