"""A price in place of an exponent: how far re-ranking may go before a metric has lost as much as the user allows.

What is lost on unseen points is only an estimate: a choice that just keeps the price there exceeds it on other points
half of the time. So a part of the price is kept in reserve (`reserve`). And a price is not spent for its own sake: over
a base with a weighting, a larger exponent may lose precision and gain nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from longtail.compose.candidates import Candidates, best_of, log_quotient
from longtail.core.calibration import Floats
from longtail.errors import ParameterError
from longtail.metrics import Matches, score
from longtail.metrics.named import MetricName, terms

_EXPONENTS = np.linspace(0, 1, 21)
_FINER = 20  # steps between two of those for the choice itself
_LEAST_GAIN = 0.25  # of what is lost; both this and the reserve are chosen by benchmarks.tail.rehearse
PRICE_METRICS = ("P", "nDCG", "R")  # that rise with precision; the gain is propensity-scored


def check_price_metric(name: str, candidates: int) -> None:
    """Raise ParameterError unless this is P@k, nDCG@k or R@k with a k of at most the number of candidates."""
    metric = MetricName.parse(name)
    if metric.base not in PRICE_METRICS:
        known = ", ".join(f"{base}@k" for base in PRICE_METRICS)
        raise ParameterError(f"price_metric is {name!r}, but must be one of {known}")
    if metric.k > candidates:
        raise ParameterError(
            f"price_metric is {name!r}, but only {candidates} candidates are re-ranked; raise candidates"
        )


@dataclass(frozen=True, eq=False)
class Frontier:
    """PSP@k against the metric of the price, e.g. P@k, of held-out points as the exponent changes.

    Parameters
    ----------
    held : Candidates
        Held-out points.
    inverse_propensities : ndarray of shape (n_labels,)
        1 / p_l of each label.
    least : float
        How much of the metric must remain.
    metric : str, default "P@1"
        In which the price is stated.
    reference : ndarray of shape (n,), optional
        The metric point by point of what the price counts from; by default of the held-out points without exponent.
    share : float, default 1.0
        Share of the standard error of the loss that is kept in reserve.
    """

    held: Candidates
    inverse_propensities: Floats
    least: float
    metric: str = "P@1"
    reference: Floats | None = None
    share: float = 1.0

    @property
    def gain(self) -> str:
        """The name of what the price is paid for: PSP at the k of the metric."""
        return f"PSP@{MetricName.parse(self.metric).k}"

    @classmethod
    def below_base(cls, held: Candidates, inverse_propensities: Floats, loss: float, metric: str = "P@1") -> Frontier:
        """Return the frontier that may lose `loss` of the metric without blocks and exponent."""
        frontier = cls.at_exponent(held, inverse_propensities, 0.0, metric)
        return replace(frontier, least=frontier.least - loss)

    @classmethod
    def at_exponent(
        cls, held: Candidates, inverse_propensities: Floats, exponent: float, metric: str = "P@1"
    ) -> Frontier:
        """Return the frontier that must keep the metric at this exponent without blocks."""
        frontier = cls(held, inverse_propensities, np.nan, metric)
        return replace(frontier, least=score(frontier._matches(held.log_odds, exponent), metric))

    def height(self, log_odds: NDArray[Any]) -> float:
        """Return the gain at the exponent where the metric of these log-odds falls to `least`.

        If it is below `least` at every exponent, return the (negative) difference.
        """
        precision, gain = self._measured(log_odds)
        if precision.max() < self.least:
            return float(precision.max() - self.least)
        return _at_precision(precision, gain, self.least)

    def exponent(self, log_odds: NDArray[Any], max_loss: float = 0.0) -> float:
        """Return the exponent that gains most while these log-odds keep `least` of the metric.

        The last part of what is lost must buy at least a quarter of its size. With `max_loss`, the share of the metric
        that may be lost, some of it is kept in reserve. Of equal exponents the largest; 0 if `least` is kept nowhere.
        """
        return self.best(log_odds, max_loss)[0]

    def best(self, log_odds: NDArray[Any], max_loss: float) -> tuple[float, float]:
        """Return the exponent of `exponent`, and what it is worth: -inf if `least` is kept nowhere."""
        coarse, _ = self._best_of(log_odds, _EXPONENTS, max_loss)
        near = coarse + _EXPONENTS[1] / _FINER * np.arange(1 - _FINER, _FINER)
        return self._best_of(log_odds, np.unique(np.clip(near, 0, 1)), max_loss)

    def values(self, log_odds: NDArray[Any], exponent: float) -> Floats:
        """Return the metric of the price point by point."""
        return terms(self._matches(log_odds, exponent), self.metric).numerators

    def _best_of(self, log_odds: NDArray[Any], exponents: Floats, max_loss: float) -> tuple[float, float]:
        plain = self.values(log_odds, 0.0) if self.reference is None else self.reference
        best, most = 0.0, -np.inf
        for exponent in exponents:
            matches = self._matches(log_odds, exponent)
            own = terms(matches, self.metric).numerators
            kept = float(own.mean())
            worth = score(matches, self.gain) + _LEAST_GAIN * kept
            if kept - reserve(standard_error(own - plain), max_loss, self.share) >= self.least and worth >= most:
                best, most = float(exponent), worth
        return best, most

    def _measured(self, log_odds: NDArray[Any]) -> tuple[Floats, Floats]:
        """Return the metric and the gain at every exponent."""
        matches = [self._matches(log_odds, exponent) for exponent in _EXPONENTS]
        precision, gain = (np.array([score(m, metric) for m in matches]) for metric in (self.metric, self.gain))
        return precision, gain

    def _matches(self, log_odds: NDArray[Any], exponent: float) -> Matches:
        labels, inverse = self.held.labels, self.inverse_propensities
        ranked = best_of(
            labels, log_quotient(labels, log_odds, np.log(inverse), exponent), MetricName.parse(self.metric).k
        )
        return Matches.of(ranked, self.held.truth, inverse_propensities=inverse)


def standard_error(differences: Floats) -> float:
    """Return the standard error of a mean of differences, point by point."""
    return float(differences.std() / np.sqrt(differences.size))


def reserve(error: float, max_loss: float, share: float = 1.0) -> float:
    """Return how much of a price is not spent: a share of the standard error of the loss, at most half the price.

    With a whole error re-rankers of five rehearsals kept their price on other points, at hardly less gain
    (docs/tail-modules.md). Without a limit, few points would leave nothing to spend.
    """
    return min(share * error, max_loss / 2)


def _at_precision(precision: Floats, values: Floats, least: float) -> float:
    """Return the value where the precision falls to `least`, interpolated between two exponents.

    Without interpolation small progress would not show.
    """
    last = int(np.flatnonzero(precision >= least)[-1]) if (precision >= least).any() else 0
    if last + 1 == precision.size or precision[last] < least:
        return float(values[last])
    way = (precision[last] - least) / (precision[last] - precision[last + 1])
    return float(values[last] + way * (values[last + 1] - values[last]))
