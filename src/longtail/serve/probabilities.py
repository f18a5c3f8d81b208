"""Scores of a served model as probabilities in (0, 1], and the dial from head to tail."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from longtail.compose.calibration import CalibrationOfGroups, log_probability
from longtail.compose.reranker import log_quotient
from longtail.compose.unseen import n_score_groups, score_groups
from longtail.core.predictions import Predictions
from longtail.data import read_dataset
from longtail.errors import DataError
from longtail.metrics import Matches
from longtail.workflow.apply import conform, predict_in_chunks

logger = logging.getLogger(__name__)

_CANDIDATES = 15  # labels per text that a calibration is fitted to, as in PropensityRerank
_NEARLY_ONE = 1e-12
_STEEPNESS = 4.0  # of the logistic function for margins, which lie between -1 and 1 for most labels
LEAST = 1e-6  # Annif's clients drop scores of 0


@dataclass(frozen=True, eq=False)
class Probabilities:
    """How the scores of a model become probabilities.

    Parameters
    ----------
    model : Estimator
        Fitted model.
    calibration : CalibrationOfGroups or None
        Fitted on data that the model has not seen; None takes the scores as probabilities or logarithms of them where
        the model says so, and 4 x score as log-odds otherwise. The order of labels is the same in each case.
    """

    model: Any
    calibration: CalibrationOfGroups | None = None

    @classmethod
    def of(cls, model: Any, data: Path | None = None) -> Probabilities:
        """Return the probabilities of a model, calibrated on labelled data if there is any."""
        return cls(model, None if data is None else _fitted(model, data))

    @property
    def origin(self) -> str:
        """Where the probabilities come from."""
        if self.calibration is not None:
            return "calibrated on data that the model has not seen"
        return "the model's own" if self._scale() else "not calibrated: the logistic function of 4 x score"

    def log_odds(self, found: Predictions) -> NDArray[np.float64]:
        """Return the log-odds of predicted labels; -inf for padding."""
        if self.calibration is not None:
            return np.asarray(self.calibration(found.scores, score_groups(self.model, found.labels)))
        scores = found.scores.astype(np.float64)
        scale = self._scale()
        if scale is None:
            return np.asarray(_STEEPNESS * scores)
        with np.errstate(divide="ignore"):
            log_p = scores if scale == "log probability" else np.log(np.maximum(scores, 0))
            return np.asarray(np.minimum(log_p, 0) - np.log(-np.expm1(np.minimum(log_p, -_NEARLY_ONE))))

    def _scale(self) -> str | None:
        # A re-ranker is served with exponent 0, and its scores are then log P (compose.reranker.log_quotient).
        return "log probability" if "exponent" in self.model.options() else self.model.score_scale


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


def _fitted(model: Any, data: Path) -> CalibrationOfGroups:
    reading = model.reading_ or {}
    dataset = read_dataset(data, **reading, label_names=model.label_names_)
    found = predict_in_chunks(model, conform(dataset, model), min(_CANDIDATES, model.n_labels_))
    hits = Matches.of(
        found, dataset.Y[:, : model.n_labels_]
    ).hits  # further columns are labels that the model does not know
    if not hits.any():
        raise DataError("the model predicts none of its labels, so scores cannot be calibrated", path=data)
    return CalibrationOfGroups.fit(found, hits, score_groups(model, found.labels), n_score_groups(model))
