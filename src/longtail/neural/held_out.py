"""Training points that are held out to tell when to stop, the same way for every neural model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from longtail.core.estimator import Estimator
from longtail.errors import ParameterError

Rows = NDArray[np.intp]


def split(n_points: int, share: float, seed: int) -> tuple[Rows, Rows]:
    """The points to learn from and those held out, both rising."""
    order = np.random.default_rng(seed).permutation(n_points)
    held_out = np.sort(order[: min(round(share * n_points), n_points - 1)])
    if share and not held_out.size:
        raise ParameterError(
            f"held_out is {share!r}, which of {n_points} points holds out none; "
            "set a larger share, or 0 to train for all epochs"
        )
    return np.sort(order[held_out.size :]), held_out


def metric_scorer(metric: str) -> Callable[[Estimator, Any, Any], float]:
    from longtail.metrics import scorer  # here: whoever trains on a GPU without validation needs no Numba

    return scorer(metric)
