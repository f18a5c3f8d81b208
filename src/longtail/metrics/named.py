"""Metrics by name, the usual metrics in one call, and the summary of a comparison."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from numpy.typing import ArrayLike

from longtail.core.predictions import Predictions
from longtail.errors import ParameterError
from longtail.metrics import labelwise, propensity, ranking
from longtail.metrics.matches import Matches, check_cutoff, check_predictions
from longtail.metrics.pointwise import Terms

POINT_METRICS: dict[str, Callable[[Matches, int], Terms]] = {
    "P": ranking.precision,
    "nDCG": ranking.ndcg,
    "R": ranking.recall,
    "abandonment": ranking.abandonment,
    "PSP": propensity.ps_precision,
    "PSnDCG": propensity.ps_ndcg,
    "PSR": propensity.ps_recall,
    "unbiased-P": propensity.unbiased_precision,
    "unbiased-nDCG": propensity.unbiased_ndcg,
}
LABEL_METRICS: dict[str, Callable[[Matches, int], float]] = {
    "coverage": labelwise.coverage,
    "macro-P": labelwise.macro_precision,
    "macro-R": labelwise.macro_recall,
    "macro-F1": labelwise.macro_f1,
}
NEEDS_PROPENSITIES = frozenset({"PSP", "PSnDCG", "PSR", "unbiased-P", "unbiased-nDCG"})
LOWER_IS_BETTER = frozenset({"abandonment"})

_PLAIN = ("P", "nDCG", "R")
_SCORED = ("PSP", "PSnDCG", "PSR")
_REST = ("coverage", "abandonment", "macro-P", "macro-R", "macro-F1")


class MetricName(NamedTuple):
    """Metric and cut-off, e.g. `PSP@3`."""

    base: str
    k: int

    @classmethod
    def parse(cls, name: str) -> MetricName:
        """Parse a name such as `psp@3`, in any case."""
        base, at, digits = str(name).partition("@")
        known = {key.lower(): key for key in (*POINT_METRICS, *LABEL_METRICS)}
        if base.lower() not in known:
            raise ParameterError(f"unknown metric {name!r}; known: {', '.join(f'{m}@k' for m in known.values())}")
        if not at or not digits.isascii() or not digits.isdigit() or int(digits) < 1:
            raise ParameterError(f"metric {name!r} needs a cut-off of at least 1, e.g. {known[base.lower()]}@5")
        return cls(known[base.lower()], int(digits))

    def __str__(self) -> str:
        return f"{self.base}@{self.k}"


def terms(matches: Matches, name: str) -> Terms:
    """Return the point-wise terms of a metric by name.

    Parameters
    ----------
    matches : Matches
        Predictions matched with true labels.
    name : str
        Name with cut-off in any case, e.g. `"PSP@3"`. Coverage and macro averages are not means over points and are
        refused.

    Returns
    -------
    Terms
        Input of `bootstrap` and `hoeffding`; its `value` is the metric.
    """
    metric = MetricName.parse(name)
    if metric.base not in POINT_METRICS:
        raise ParameterError(f"{metric} is not a mean over points; use one of {', '.join(POINT_METRICS)}")
    return POINT_METRICS[metric.base](matches, metric.k)


def score(matches: Matches, name: str) -> float:
    """Return a metric by name, as a fraction.

    Parameters
    ----------
    matches : Matches
        Predictions matched with true labels.
    name : str
        Name with cut-off in any case, e.g. `"PSP@3"` or `"coverage@5"`.

    Returns
    -------
    float
    """
    metric = MetricName.parse(name)
    if metric.base in LABEL_METRICS:
        return LABEL_METRICS[metric.base](matches, metric.k)
    return POINT_METRICS[metric.base](matches, metric.k).value


def evaluate(
    predictions: Predictions,
    Y: Any,
    *,
    inverse_propensities: ArrayLike | None = None,
    ks: Sequence[int] = (1, 2, 3, 4, 5),
) -> dict[str, float]:
    """Compute the usual metrics, in percent.

    Parameters
    ----------
    predictions : Predictions
        Ranked labels of n points.
    Y : (n, L) sparse or dense 0/1 matrix, or one list of label ids per point
        True labels; may include labels that the model does not know.
    inverse_propensities : array_like, optional
        1/p_l per label of `Y`, e.g. from `PropensityModel.inverse` of the training counts.
    ks : sequence of int, default (1, 2, 3, 4, 5)
        Cut-offs.

    Returns
    -------
    dict of str to float
        P, nDCG, R, coverage, abandonment, macro-P, macro-R and macro-F1 at each k, under keys such as `P@1`; with
        `inverse_propensities` also PSP, PSnDCG and PSR.

    See Also
    --------
    precision, ndcg, recall, ps_precision, coverage : definitions of the metrics.
    """
    if not isinstance(ks, Iterable):
        raise ParameterError(f"ks is {ks!r}, but must be a list of cut-offs, e.g. ks=(1, 3, 5)")
    if not ks:
        raise ParameterError("ks is empty; give at least one cut-off, e.g. ks=(1, 3, 5)")
    deepest = max(check_cutoff(k) for k in ks)
    check_predictions(predictions)
    matches = Matches.of(predictions.top(min(deepest, predictions.k)), Y, inverse_propensities=inverse_propensities)
    names = _PLAIN + (() if inverse_propensities is None else _SCORED) + _REST
    return {f"{name}@{k}": 100.0 * score(matches, f"{name}@{k}") for name in names for k in ks}


class RelativeChange(NamedTuple):
    """Mean relative changes of metrics, as fractions of the base's values.

    Attributes
    ----------
    vanilla : float
        Mean over P and nDCG.
    propensity_scored : float
        Mean over PSP and PSnDCG.
    """

    vanilla: float
    propensity_scored: float


def relative_change(method: Mapping[str, float], base: Mapping[str, float]) -> RelativeChange:
    """Summarize how a method changes the metrics of a base, in two numbers.

    Parameters
    ----------
    method : mapping of str to float
        Results of the method: of `evaluate` with inverse propensities.
    base : mapping of str to float
        Results of the base.

    Returns
    -------
    RelativeChange

    Notes
    -----
    Mean over m in {P, nDCG}@{1, 3, 5} of (m(method) - m(base)) / m(base), and the same over {PSP, PSnDCG}@{1, 3, 5}
    (Qaraei et al. 2021, eq. 30). nDCG@1 is P@1, so P@1 counts twice, as in the paper.
    """
    return RelativeChange(
        _mean_change(method, base, ("P", "nDCG")),
        _mean_change(method, base, ("PSP", "PSnDCG")),
    )


def _mean_change(method: Mapping[str, float], base: Mapping[str, float], metrics: Sequence[str]) -> float:
    names = [f"{metric}@{k}" for metric in metrics for k in (1, 3, 5)]
    for name in names:
        if name not in method or name not in base:
            raise ParameterError(f"{name} is missing; the relative change needs {', '.join(names)} in both results")
        if base[name] == 0:
            raise ParameterError(f"{name} of the base is 0, so the relative change is not defined")
    return sum((method[name] - base[name]) / base[name] for name in names) / len(names)
