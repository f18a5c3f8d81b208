"""How far a metric on these test points may be from its value on all points."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from longtail.core.estimator import check_whole
from longtail.errors import ParameterError
from longtail.metrics.matches import Floats
from longtail.metrics.pointwise import Terms

_CHUNK = 4_000_000  # resampling weights held at once


class Interval(NamedTuple):
    """A metric's value and the interval around it, as fractions."""

    value: float
    low: float
    high: float


def bootstrap(
    metrics: Mapping[str, Terms], *, level: float = 0.95, n_resamples: int = 1000, random_state: int = 0
) -> dict[str, Interval]:
    """Percentile bootstrap intervals over test points, of all metrics on the same resamples.

    Each resample draws n of the n points with replacement, as weights (how often each point was drawn) over the points'
    numerators and, for a ratio of sums such as PSP, denominators; the interval holds the middle `level` of the values.
    Points are resampled, labels are not: the chance in which labels are missing is not part of it.

    `metrics`: from `terms`, e.g. `{"PSP@3": terms(matches, "PSP@3")}`; all of the same points.
    """
    _check_level(level)
    check_whole("n_resamples", n_resamples, 1)
    sizes = {t.numerators.size for t in metrics.values()}
    if len(sizes) != 1:
        raise ParameterError("bootstrap needs at least one metric, and all of them over the same points")
    (n,) = sizes
    table = np.column_stack([_columns(t) for t in metrics.values()])  # (n, 2 x metrics)
    sums = np.empty((n_resamples, table.shape[1]))
    rng = np.random.default_rng(random_state)
    step = max(1, _CHUNK // n)
    for start in range(0, n_resamples, step):
        chunk = range(start, min(start + step, n_resamples))
        weights = np.stack([np.bincount(rng.integers(0, n, n), minlength=n) for _ in chunk]).astype(np.float64)
        sums[chunk.start : chunk.stop] = weights @ table
    numerators, denominators = sums[:, 0::2], sums[:, 1::2]
    values = np.divide(numerators, denominators, out=np.zeros_like(numerators), where=denominators > 0)
    tail = 100 * (1 - level) / 2
    low, high = np.percentile(values, [tail, 100 - tail], axis=0)
    return {name: Interval(t.value, float(low[j]), float(high[j])) for j, (name, t) in enumerate(metrics.items())}


def hoeffding(metric: Terms, *, level: float = 0.95) -> Interval:
    """A distribution-free interval: holds with probability at least `level` whatever the points look like, for any n.

    A mean of n independent terms in [a, b] misses its expectation by more than (b - a) sqrt(log(2/delta) / (2n)) with
    probability at most delta = 1 - level (Hoeffding's inequality, in the spirit of theorem 4.3 of Jain et al. 2016;
    propensity-scored terms lie in [0, max_l 1/p_l]). A ratio of sums gets both means bounded with delta/2 each. It
    covers the choice of points and the missing labels alike, and is much wider than the bootstrap.
    """
    _check_level(level)
    n = metric.numerators.size
    a, b = metric.bounds
    means = 1 if metric.denominators is None else 2
    margin = (b - a) * float(np.sqrt(np.log(2 * means / (1 - level)) / (2 * n)))
    mean = float(metric.numerators.mean())
    if metric.denominators is None:
        return Interval(metric.value, max(a, mean - margin), min(b, mean + margin))
    best = float(metric.denominators.mean())
    # A point's gain never exceeds its best gain, so the ratio lies in [0, 1] in any case.
    high = min(1.0, (mean + margin) / (best - margin)) if best > margin else 1.0
    return Interval(metric.value, max(0.0, mean - margin) / (best + margin), high)


def _columns(metric: Terms) -> Floats:
    denominators = np.ones_like(metric.numerators) if metric.denominators is None else metric.denominators
    return np.column_stack([metric.numerators, denominators])


def _check_level(level: float) -> None:
    if not 0 < level < 1:
        raise ParameterError(f"level is {level!r}, but must lie between 0 and 1, e.g. 0.95")
