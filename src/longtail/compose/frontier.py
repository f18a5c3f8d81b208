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
from longtail.compose.ensemble import united_labels
from longtail.compose.mean import log_mean
from longtail.compose.price import reserve, standard_error
from longtail.core.calibration import Calibration, Floats
from longtail.core.predictions import Predictions
from longtail.errors import DataError
from longtail.metrics import Matches, score
from longtail.metrics.named import MetricName, terms

CANDIDATES = 20  # labels per model that are ranked again
EXPONENTS = np.linspace(0, 1, 41)
_FINER = 10  # steps between two of those for the choice itself: rare labels may gain half a point from one to the next
_WORTH = 0.2  # percentage points of the gain that a second model must be worth: it doubles size and time
_RESERVE = 0.5  # of a standard error; both are chosen by benchmarks.tail.rehearse
_LEAST_GAIN = 0.75  # points of the gain that a point of the price must buy, or else it is not spent
_ROUNDING = 1e-9


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
    error : float, default 0.0
        Standard error of the difference between `kept` and that of the best single model.
    """

    names: tuple[str, ...]
    exponent: float
    kept: float
    gained: float
    error: float = 0.0

    def loss(self, reference: Reached, max_loss: float) -> float:
        """Return what is lost against the best single model, and what is kept in reserve of the price."""
        return reference.kept - self.kept + reserve(self.error, max_loss, _RESERVE)


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

    def of(self, names: Sequence[str]) -> list[Predictions]:
        """Return the predictions of these models."""
        return [self.found[name] for name in names]

    def curve(self, names: tuple[str, ...], exponents: Floats = EXPONENTS) -> list[Reached]:
        """Return what these models reach together at every exponent."""
        labels, logs, lift = self._mixed(names)
        curve = []
        for exponent in exponents:
            kept, gained = self._measured(labels, logs + exponent * lift)
            error = 100 * standard_error(kept - self._reference_values)
            curve.append(Reached(names, float(exponent), 100 * kept.mean(), 100 * gained, error))
        return curve

    def point_values(self, reached: Reached) -> Floats:
        """Return the metric of the price point by point."""
        labels, logs, lift = self._mixed(reached.names)
        return self._measured(labels, logs + reached.exponent * lift)[0]

    def _mixed(self, names: tuple[str, ...]) -> tuple[NDArray[np.int32], Floats, Floats]:
        """Return labels that these models propose, logarithms of their mean probabilities, and of 1/p."""
        labels, logs = log_means(self.of(names), [probabilities(self.calibrations[n], self.found[n]) for n in names])
        return labels, logs, np.log(self.inverse_propensities)[labels]

    def refined(self, chosen: Reached, reference: Reached, max_loss: float) -> Reached:
        """Return the best of the exponents near that of a choice."""
        near = chosen.exponent + EXPONENTS[1] / _FINER * np.arange(1 - _FINER, _FINER)
        exponents = np.unique(np.clip(near, 0, 1).round(4))
        return best([[chosen], self.curve(chosen.names, exponents)], reference, max_loss)

    @cached_property
    def reference(self) -> Reached:
        """The best single model as it is: without an exponent."""
        return max((self.as_it_is(name) for name in self.found), key=lambda r: r.kept)

    def as_it_is(self, name: str) -> Reached:
        """Return what a single model reaches without an exponent."""
        kept, gained = self._measured(self.found[name].labels, self.found[name].scores)
        return Reached((name,), 0.0, 100 * kept.mean(), 100 * gained)

    @cached_property
    def _reference_values(self) -> Floats:
        found = self.found[self.reference.names[0]]
        return self._measured(found.labels, found.scores)[0]

    def _measured(self, labels: NDArray[np.int32], scores: NDArray[Any]) -> tuple[Floats, float]:
        """Return the metric of the price point by point, and the gain."""
        k = MetricName.parse(self.metric).k
        found = best_of(labels, scores, k)
        matches = Matches.of(found, self.truth, inverse_propensities=self.inverse_propensities)
        return terms(matches, self.metric).numerators, score(matches, f"PSP@{k}")


def best(curves: Sequence[list[Reached]], reference: Reached, max_loss: float) -> Reached:
    """Return what gains most at this price below the best single model."""
    allowed = [r for curve in curves for r in curve if r.loss(reference, max_loss) <= max_loss + _ROUNDING]
    return max(allowed, key=lambda r: _goodness(r) - _WORTH * (len(r.names) - 1), default=reference)


def _goodness(reached: Reached) -> float:
    """Return the gain, less what the price for it should have bought at least.

    Where the last part of a price buys little, a choice on few points is a choice of noise, and the price is paid for
    nothing on other points (docs/auto.md).
    """
    return reached.gained + _LEAST_GAIN * reached.kept


def rows(curves: Sequence[list[Reached]], reference: Reached, max_loss: float) -> list[dict[str, Any]]:
    """Return, per model or pair, the most that it gains at the price; None where it costs more at every exponent."""
    table = []
    for curve in curves:
        allowed = [r for r in curve if r.loss(reference, max_loss) <= max_loss + _ROUNDING]
        most = max(allowed, key=_goodness) if allowed else None
        table.append({
            "models": list(curve[0].names), "kept": round(curve[0].kept, 2), "gained": round(curve[0].gained, 2),
            "at_price": None if most is None else {
                "exponent": most.exponent, "kept": round(most.kept, 2), "gained": round(most.gained, 2)
            },
        })  # fmt: skip
    return table
