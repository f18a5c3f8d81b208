"""The size of a fitted model."""

from __future__ import annotations

from typing import Any

from longtail.core.model import full_state


def megabytes(model: Any) -> float:
    """Return the size of the arrays that a model has learned; `fit` counts labels besides."""
    return float(sum(array.nbytes for array in full_state(model).part("learned").arrays.values()) / 1e6)
