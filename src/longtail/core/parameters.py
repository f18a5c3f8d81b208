"""Checks of parameters that many models share: one wording per kind of mistake."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from longtail.errors import ParameterError


def check_positive(**values: float) -> None:
    """Raise ParameterError unless all values, given by name, are finite numbers above 0."""
    for name, value in values.items():
        if isinstance(value, bool) or not isinstance(value, (int, float, np.number)) or not 0 < value < np.inf:
            raise ParameterError(f"{name} is {value!r}, but must be a number greater than 0")


def check_at_least_zero(**values: float) -> None:
    """Raise ParameterError unless all values, given by name, are finite numbers of at least 0."""
    for name, value in values.items():
        if isinstance(value, bool) or not isinstance(value, (int, float, np.number)) or not 0 <= value < np.inf:
            raise ParameterError(f"{name} is {value!r}, but must be a number of at least 0")


def check_number(name: str, value: Any) -> None:
    """Raise ParameterError unless the value is a number; it may be infinite."""
    if isinstance(value, bool) or not isinstance(value, (int, float, np.number)) or np.isnan(value):
        raise ParameterError(f"{name} is {value!r}, but must be a number")


def check_whole(name: str, value: Any, least: int) -> None:
    """Raise ParameterError unless the value is a whole number of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
        raise ParameterError(f"{name} is {value!r}, but must be a whole number of at least {least}")


def check_choice(name: str, value: Any, choices: Sequence[Any]) -> None:
    """Raise ParameterError unless the value is one of the choices."""
    if value not in choices:
        raise ParameterError(f"{name} is {value!r}, but must be one of {', '.join(map(repr, choices))}")


def check_seed(name: str, value: int) -> None:
    """Raise ParameterError unless the value is a whole number that torch and NumPy both accept as a seed."""
    check_whole(name, value, 0)
    if value >= 2**63:
        raise ParameterError(f"{name} is {value!r}, but must be less than 2**63")


def check_share(name: str, value: float) -> None:
    """Raise ParameterError unless the value is at least 0 and below 1."""
    check_at_least_zero(**{name: value})
    if value >= 1:
        raise ParameterError(f"{name} is {value!r}, but must be a share of at least 0 and below 1")
