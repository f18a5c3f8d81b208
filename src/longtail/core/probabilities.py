"""Which models have probabilities, and scores as probabilities."""

from __future__ import annotations

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


def as_probabilities(found: Predictions) -> NDArray[np.float32]:
    """Return the probabilities behind scores that are their logarithms; padding stays padding."""
    return np.where(found.labels >= 0, np.exp(np.minimum(found.scores, 0)), PAD_SCORE).astype(np.float32)
