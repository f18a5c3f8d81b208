"""What tried models reach on points that they have not seen, alone and in pairs, at every exponent of a re-ranker."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import expit

from longtail.compose.candidates import best_of
from longtail.compose.ensemble import log_mean, united_labels
from longtail.core.calibration import Calibration, Floats
from longtail.core.predictions import Predictions
from longtail.errors import DataError
from longtail.metrics import Matches, score
from longtail.metrics.named import MetricName

EXPONENTS = np.linspace(0, 1, 41)
_WORTH = 0.2  # percentage points of the gain that a second model must be worth: it doubles size and time


@dataclass(frozen=True)
class Reached:
    """What models reach together at one exponent, in percent.

    Parameters
    ----------
    names : tuple of str
        One model, or two whose probabilities are averaged.
    exponent : float
        Exponent of the re-ranker.
    kept : float
        The metric of the price.
    gained : float
        The propensity-scored metric at the same k.
    """

    names: tuple[str, ...]
    exponent: float
    kept: float
    gained: float


def probabilities(calibration: Calibration, found: Predictions) -> Floats:
    """Return calibrated probabilities of predictions, 0 for padding."""
    return np.asarray(expit(calibration(found.scores.astype(np.float64))))


def log_means(found: Sequence[Predictions], values: Sequence[Floats]) -> tuple[NDArray[np.int32], Floats]:
    """Return the labels that any of the models proposes (-1 pads), and the logarithms of their mean probabilities."""
    labels = np.ascontiguousarray(np.hstack([part.labels for part in found]))
    united, vectors = united_labels(labels, np.hstack(values), len(found))
    return united, log_mean(vectors, np.full(len(found), 1 / len(found)))


@dataclass(frozen=True, eq=False)
class Trials:
    """Predictions of tried models for the same unseen points.

    Parameters
    ----------
    found : dict of str to Predictions
        By name, in the order of the trials.
    truth : csr_matrix of shape (n, n_labels)
        Labels of the points.
    inverse_propensities : ndarray of shape (n_labels,)
        1 / p_l of each label.
    metric : str
        In which the price is stated.
    """

    found: dict[str, Predictions]
    truth: sparse.csr_matrix
    inverse_propensities: Floats
    metric: str

    @cached_property
    def calibrations(self) -> dict[str, Calibration]:
        """The calibration of each model to these points."""
        return {name: self._calibrated(name) for name in self.found}

    def _calibrated(self, name: str) -> Calibration:
        found = self.found[name]
        proposed = found.labels >= 0
        hits = Matches.of(found, self.truth).hits
        if not hits.any():
            raise DataError(
                f"{name} found no label of a held-out point, so there is nothing to choose by; use more points, or "
                "choose a model yourself"
            )
        return Calibration.fit(found.scores[proposed], hits[proposed])

    def curve(self, names: tuple[str, ...]) -> list[Reached]:
        """Return what these models reach together at every exponent."""
        parts = [self.found[name] for name in names]
        labels, logs = log_means(parts, [probabilities(self.calibrations[n], self.found[n]) for n in names])
        k = MetricName.parse(self.metric).k
        gain, inverse = f"PSP@{k}", self.inverse_propensities
        lift = np.log(inverse)[labels]
        curve = []
        for exponent in EXPONENTS:
            matches = Matches.of(best_of(labels, logs + exponent * lift, k), self.truth, inverse_propensities=inverse)
            kept, gained = (100 * score(matches, metric) for metric in (self.metric, gain))
            curve.append(Reached(names, float(exponent), kept, gained))
        return curve

    def best(self, curves: Sequence[list[Reached]], max_loss: float) -> tuple[Reached, Reached]:
        """Return the best single model without an exponent, and what gains most at this price below it."""
        reference = max((curve[0] for curve in curves if len(curve[0].names) == 1), key=lambda r: r.kept)
        allowed = [r for curve in curves for r in curve if r.kept >= reference.kept - max_loss - 1e-9]
        return reference, max(allowed, key=lambda r: r.gained - _WORTH * (len(r.names) - 1))


def pairs(names: Sequence[str]) -> list[tuple[str, ...]]:
    """Return every name alone, then every pair of models of two kinds, in the order of the names."""
    alone: list[tuple[str, ...]] = [(name,) for name in names]
    kind = lambda name: name.split("/")[0]  # noqa: E731
    return alone + [(a, b) for i, a in enumerate(names) for b in names[i + 1 :] if kind(a) != kind(b)]


def rows(curves: Sequence[list[Reached]], limit: float) -> list[dict[str, Any]]:
    """Return, per model or pair, the most that it gains while it keeps the limit; None where it does not."""
    table = []
    for curve in curves:
        allowed = [r for r in curve if r.kept >= limit - 1e-9]
        best = max(allowed, key=lambda r: r.gained) if allowed else None
        table.append({
            "models": list(curve[0].names), "kept": round(curve[0].kept, 2), "gained": round(curve[0].gained, 2),
            "at_price": None if best is None else {
                "exponent": best.exponent, "kept": round(best.kept, 2), "gained": round(best.gained, 2)
            },
        })  # fmt: skip
    return table
