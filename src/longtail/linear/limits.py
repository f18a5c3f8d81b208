"""Numerical limits of the solver: what float32 can square, divide by and add up without overflow.

They are far beyond any sensible problem. What exceeds them raises an error that names the point or the label.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from longtail.core.inputs import LARGEST_SQUARED_LENGTH
from longtail.errors import DataError, TrainingError

_LARGEST_COST = 1e20


def check_norms(norms: NDArray[np.float32], points: NDArray[np.integer]) -> None:
    """Raise DataError if a row is too long for float32.

    Parameters
    ----------
    norms : (n,) array of float32
        Squared lengths of the rows, bias included.
    points : (n,) array of int
        Ids of the points that the rows belong to.
    """
    if norms.size and not norms.max() <= LARGEST_SQUARED_LENGTH:  # true for NaN as well
        raise DataError(
            f"the features of point {points[int(np.argmax(norms))]} (with the bias) have the squared length "
            f"{norms.max():g}, more than {LARGEST_SQUARED_LENGTH:g}; "
            "scale rows to unit length, and use a bias of about 1"
        )


def check_costs(
    C: float,
    costs: NDArray[np.floating],
    trained: NDArray[np.bool_],
    what: str,
    point_weights: NDArray[np.float32],
    *,
    relevance: float = 1.0,
) -> None:
    """Raise TrainingError unless C times label weight times point weight is a positive number that float32 can hold.

    Parameters
    ----------
    C : float
        Cost of the loss.
    costs : (n_labels,) array
        C times label weight.
    trained : (n_labels,) array of bool
        Labels to check: those that are trained.
    what : str
        What the error calls a label, e.g. "label".
    point_weights : (n,) array of float32
        Weights of the points.
    relevance : float, default 1.0
        Least relevance of a label.
    """
    weights = point_weights.astype(np.float64)
    least = np.minimum(costs * relevance, C) * weights.min(initial=1)
    most = np.maximum(costs, C) * weights.max(initial=1)
    bad = trained & ~((least >= 1 / _LARGEST_COST) & (most <= _LARGEST_COST))
    if bad.any():
        label = int(np.flatnonzero(bad)[0])
        raise TrainingError(
            f"the loss of {what} {label} is weighted from {least[label]:g} to {most[label]:g} (C is {C:g}, the "
            f"weight of its positives {costs[label] / C:g}, point weights {weights.min(initial=1):g} to "
            f"{weights.max(initial=1):g}, the least relevance {relevance:g}); training needs {1 / _LARGEST_COST:g} to "
            f"{_LARGEST_COST:g}"
        )


def check_finite(
    W: NDArray[np.float32], gaps: NDArray[np.float64], labels: NDArray[np.integer], what: str, C: float
) -> None:
    """Raise TrainingError if training overflowed.

    Parameters
    ----------
    W : (features, lanes) array of float32
        Weights of a block after training.
    gaps : (lanes,) array
        Relative duality gaps after training.
    labels : array of int
        Labels of the block; lane j belongs to `labels[j]`.
    what : str
        What the error calls a label, e.g. "label".
    C : float
        Cost of the loss, for the error message.
    """
    bad = ~(np.isfinite(W).all(axis=0) & np.isfinite(gaps))[: labels.size]
    if bad.any():
        raise TrainingError(
            f"the weights of {what} {labels[bad][0]} overflowed; use a smaller C (it is {C}), "
            "smaller label or point weights, or rows of unit length"
        )


def check_point_weights(weights: object, n_points: int) -> NDArray[np.float32] | None:
    """Return the weights of the points as float32, or raise DataError unless there is one above zero per point."""
    if weights is None:
        return None
    try:
        array = np.asarray(weights, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DataError("sample_weight must be one number per point") from error
    if array.shape != (n_points,):
        raise DataError(f"sample_weight has shape {array.shape}, but there are {n_points} points")
    if not ((array >= 1 / _LARGEST_COST) & (array <= _LARGEST_COST)).all():
        raise DataError(
            f"sample_weight must hold numbers greater than 0, from {1 / _LARGEST_COST:g} to {_LARGEST_COST:g}; "
            "to give a point no weight, leave it out of X and Y"
        )
    return array.astype(np.float32)
