"""Held-out training points for early stopping, the same way for every neural model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from longtail.core.estimator import Estimator
from longtail.errors import ParameterError

Indices = NDArray[np.intp]


def split(n_points: int, share: float, seed: int) -> tuple[Indices, Indices]:
    """Split the points at random; return those to train on and those held out, both in rising order."""
    order = np.random.default_rng(seed).permutation(n_points)
    held_out = np.sort(order[: min(round(share * n_points), n_points - 1)])
    if share and not held_out.size:
        raise ParameterError(
            f"held_out is {share!r}, which holds out none of the {n_points} points; "
            "set a larger share, or 0 to train for all epochs"
        )
    return np.sort(order[held_out.size :]), held_out


def metric_scorer(metric: str) -> Callable[[Estimator, Any, Any], float]:
    """Return a scorer of an estimator on points and labels, by the name of the metric."""
    from longtail.metrics import scorer  # imported here, because training without validation does not need Numba

    return scorer(metric)
