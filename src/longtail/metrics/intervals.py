"""Confidence intervals: how far a metric on the test points may be from its value on all points."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from longtail.core.parameters import check_whole
from longtail.errors import ParameterError
from longtail.metrics.matches import Floats
from longtail.metrics.pointwise import Terms

_CHUNK = 4_000_000  # resampling weights in memory at once


class Interval(NamedTuple):
    """Value of a metric and its interval, as fractions.

    Attributes
    ----------
    value : float
        The metric.
    low : float
        Lower end of the interval.
    high : float
        Upper end of the interval.
    """

    value: float
    low: float
    high: float


def bootstrap(
    metrics: Mapping[str, Terms], *, level: float = 0.95, n_resamples: int = 1000, random_state: int = 0
) -> dict[str, Interval]:
    """Compute percentile bootstrap intervals over test points, for all metrics on the same resamples.

    Parameters
    ----------
    metrics : mapping of str to Terms
        Metrics of the same points, e.g. `{"PSP@3": terms(matches, "PSP@3")}`.
    level : float, default 0.95
        Confidence level; the interval contains the middle `level` of the resampled values.
    n_resamples : int, default 1000
        Number of resamples.
    random_state : int, default 0
        Seed.

    Returns
    -------
    dict of str to Interval

    Notes
    -----
    Each resample draws n of the n points with replacement, as weights (how often each point was drawn) over the points'
    numerators and, for a ratio of sums such as PSP, denominators. Points are resampled, labels are not: the interval
    does not include the randomness of which labels are missing.
    """
    low, high = _middle(_resampled(list(metrics.values()), level, n_resamples, random_state), level)
    return {name: Interval(t.value, float(low[j]), float(high[j])) for j, (name, t) in enumerate(metrics.items())}


def paired_bootstrap(
    metrics: Mapping[str, Terms],
    others: Mapping[str, Terms],
    *,
    level: float = 0.95,
    n_resamples: int = 1000,
    random_state: int = 0,
) -> dict[str, Interval]:
    """Compute intervals of the differences between two models on the same test points.

    Parameters
    ----------
    metrics : mapping of str to Terms
        Metrics of one model.
    others : mapping of str to Terms
        Metrics of the other model, on the same points; names that both have are compared.
    level : float, default 0.95
        Confidence level.
    n_resamples : int, default 1000
        Number of resamples.
    random_state : int, default 0
        Seed.

    Returns
    -------
    dict of str to Interval
        Difference `metrics - others`. An interval without 0 says that the difference is beyond chance, as far as the
        choice of test points goes; it does not include the randomness of training.

    Notes
    -----
    Both models are scored on the same resamples, so what makes points easy or hard for both cancels. Each metric has
    its own interval: among many metrics, some differ by chance.
    """
    names = [name for name in metrics if name in others]
    paired = [terms for name in names for terms in (metrics[name], others[name])]
    values = _resampled(paired, level, n_resamples, random_state)
    low, high = _middle(values[:, 0::2] - values[:, 1::2], level)
    differences = [metrics[name].value - others[name].value for name in names]
    return {name: Interval(differences[j], float(low[j]), float(high[j])) for j, name in enumerate(names)}


def hoeffding(metric: Terms, *, level: float = 0.95) -> Interval:
    """Compute a distribution-free interval, valid with probability at least `level` for any points and any n.

    Parameters
    ----------
    metric : Terms
        Metric, from `terms`.
    level : float, default 0.95
        Confidence level.

    Returns
    -------
    Interval

    Notes
    -----
    A mean of n independent terms in [a, b] misses its expectation by more than (b - a) sqrt(log(2/delta) / (2n)) with
    probability at most delta = 1 - level (Hoeffding's inequality, in the spirit of theorem 4.3 of Jain et al. 2016;
    propensity-scored terms lie in [0, max_l 1/p_l]). For a ratio of sums, each of the two means is bounded with
    delta/2. The interval covers both the choice of points and the missing labels, and is much wider than the
    bootstrap's.
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


def _resampled(metrics: list[Terms], level: float, n_resamples: int, random_state: int) -> Floats:
    """Return the value of each metric on each resample, (resamples, metrics)."""
    _check_level(level)
    check_whole("n_resamples", n_resamples, 1)
    sizes = {t.numerators.size for t in metrics}
    if len(sizes) != 1:
        raise ParameterError("bootstrap needs at least one metric, and all metrics must be over the same points")
    (n,) = sizes
    table = np.column_stack([_columns(t) for t in metrics])  # (n, 2 x metrics)
    sums = np.empty((n_resamples, table.shape[1]))
    rng = np.random.default_rng(random_state)
    step = max(1, _CHUNK // n)
    for start in range(0, n_resamples, step):
        chunk = range(start, min(start + step, n_resamples))
        weights = np.stack([np.bincount(rng.integers(0, n, n), minlength=n) for _ in chunk]).astype(np.float64)
        sums[chunk.start : chunk.stop] = weights @ table
    numerators, denominators = sums[:, 0::2], sums[:, 1::2]
    return np.divide(numerators, denominators, out=np.zeros_like(numerators), where=denominators > 0)


def _middle(values: Floats, level: float) -> Floats:
    """Return the ends of the middle `level` of each column, (2, columns)."""
    tail = 100 * (1 - level) / 2
    return np.asarray(np.percentile(values, [tail, 100 - tail], axis=0))


def _columns(metric: Terms) -> Floats:
    denominators = np.ones_like(metric.numerators) if metric.denominators is None else metric.denominators
    return np.column_stack([metric.numerators, denominators])


def _check_level(level: float) -> None:
    if not 0 < level < 1:
        raise ParameterError(f"level is {level!r}, but must lie between 0 and 1, e.g. 0.95")
