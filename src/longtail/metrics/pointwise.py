"""What a metric is made of, point by point: needed for its value and for how uncertain that value is."""

from __future__ import annotations

from dataclasses import dataclass

from longtail.metrics.matches import Floats


@dataclass(frozen=True, eq=False)
class Terms:
    """The terms of a metric that is a mean over points, or a ratio of two such means.

    `numerators` (n,); `denominators` (n,), or None where the metric is the plain mean of the numerators.
    `bounds`: the interval that every term lies in whatever the labels are (for the distribution-free interval).
    """

    numerators: Floats
    denominators: Floats | None = None
    bounds: tuple[float, float] = (0.0, 1.0)

    @property
    def value(self) -> float:
        """The metric as a fraction; 0 where it is 0/0."""
        if self.denominators is None:
            return float(self.numerators.mean())
        best = float(self.denominators.sum())
        return float(self.numerators.sum()) / best if best else 0.0


def divide(numerators: Floats, denominators: Floats) -> Floats:
    """The quotient where the denominator is positive, 0 elsewhere: the rule of this room for 0/0."""
    result: Floats = numerators * 0.0
    positive = denominators > 0
    result[positive] = numerators[positive] / denominators[positive]
    return result
