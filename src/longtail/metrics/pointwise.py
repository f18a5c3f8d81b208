"""Terms of a metric, point by point: its value and its confidence interval are computed from them."""

from __future__ import annotations

from dataclasses import dataclass

from longtail.metrics.matches import Floats


@dataclass(frozen=True, eq=False)
class Terms:
    """Terms of a metric that is a mean over points (or labels), or a ratio of two such means.

    Attributes
    ----------
    numerators : (n,) array
        One term per point.
    denominators : (n,) array or None
        None if the metric is the plain mean of the numerators.
    bounds : (float, float)
        Interval that contains every term whatever the labels are; used by `hoeffding`.
    """

    numerators: Floats
    denominators: Floats | None = None
    bounds: tuple[float, float] = (0.0, 1.0)

    @property
    def value(self) -> float:
        """The metric as a fraction; 0/0 is 0."""
        if self.denominators is None:
            return float(self.numerators.mean())
        best = float(self.denominators.sum())
        return float(self.numerators.sum()) / best if best else 0.0


def divide(numerators: Floats, denominators: Floats) -> Floats:
    """Return the quotient where the denominator is positive, 0 elsewhere: metrics count 0/0 as 0."""
    result: Floats = numerators * 0.0
    positive = denominators > 0
    result[positive] = numerators[positive] / denominators[positive]
    return result
