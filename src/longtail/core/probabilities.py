"""Which models have probabilities, and scores as probabilities."""

from __future__ import annotations

from collections.abc import Callable
from types import MethodType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from longtail.core.predictions import PAD_SCORE, Predictions


def scores_are_probabilities(model: Any) -> bool:
    """Return True if the scores of a model are probabilities or their logarithms, else raise AttributeError."""
    if model.score_scale is None:
        raise AttributeError(
            f"the scores of this {type(model).__name__} are not probabilities; wrap it to calibrate them on points "
            "that it has not seen: PropensityRerank(base=model, exponent=0)"
        )
    return True


class available_if:
    """Decorator of methods that some objects of a class do not have: `hasattr` is False where `check` raises."""

    def __init__(self, check: Callable[[Any], bool]) -> None:
        self.check = check

    def __call__(self, method: Callable[..., Any]) -> available_if:
        self.method, self.__doc__ = method, method.__doc__
        return self

    def __get__(self, owner: Any, kind: type | None = None) -> Any:
        if owner is None:
            return self.method
        self.check(owner)
        return MethodType(self.method, owner)


def as_probabilities(found: Predictions) -> NDArray[np.float32]:
    """Return the probabilities behind scores that are their logarithms; padding stays padding."""
    return np.where(found.labels >= 0, np.exp(np.minimum(found.scores, 0)), PAD_SCORE).astype(np.float32)
