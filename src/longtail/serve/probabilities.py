"""Scores of a served model as probabilities in (0, 1], and the dial from head to tail."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from longtail.compose.candidates import log_quotient
from longtail.core.calibration import log_probability
from longtail.core.predictions import Predictions
from longtail.data import read_dataset
from longtail.workflow.apply import conform
from longtail.workflow.calibrate import calibrate

LEAST = 1e-6  # Annif's clients drop scores of 0
_STEEPNESS = 4.0  # of the logistic function for margins, which lie between -1 and 1 for most labels


def calibrate_on(model: Any, data: Path) -> None:
    """Calibrate a model on labelled data that it was not trained on."""
    dataset = read_dataset(data, **(model.reading_ or {}), label_names=model.label_names_)
    calibrate(model, conform(dataset, model), dataset.Y)


def origin(model: Any) -> str:
    """Return where the probabilities of a model come from."""
    if not model.has_probabilities():
        return f"not calibrated: the logistic function of {_STEEPNESS:g} x score"
    return "the model's own" if model.own_calibration() is None else "calibrated on data that the model has not seen"


def predict_log_odds(model: Any, inputs: Any, k: int) -> tuple[Predictions, NDArray[np.float64]]:
    """Return the k best labels per input and their log-odds, -inf for padding.

    A model without probabilities gets those of the logistic function: not calibrated, but in the same order.
    """
    if not model.has_probabilities():
        found = model.predict(inputs, k=k)
        return found, _STEEPNESS * found.scores.astype(np.float64)
    found = model.predict(inputs, k=k, calibrated=True)
    likely = np.maximum(found.scores.astype(np.float64), 0)
    with np.errstate(divide="ignore"):
        return found, np.log(likely) - np.log1p(-likely)


def shown(log_odds: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return probabilities as they are shown: in (0, 1]."""
    return np.asarray(np.maximum(np.exp(log_probability(log_odds)), LEAST))


def toward_tail(
    labels: NDArray[np.int32], log_odds: NDArray[np.float64], log_inverse: NDArray[np.float64], exponent: float
) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """Return the order of one text's labels by P / p^exponent, and the scores to show for them, in (0, 1].

    Quotients may exceed 1; then all of the text are divided by the largest: scores keep the order of the labels.
    """
    quotient = log_quotient(labels, log_odds, log_inverse, exponent)
    order = np.lexsort((labels, -quotient))
    scores = np.exp(quotient[order] - max(0.0, float(quotient.max(initial=0.0))))
    return order, np.maximum(scores, LEAST)
