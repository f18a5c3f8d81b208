"""What a search raises: metrics of rankings with a cut-off (P@1), and metrics of label sets without one (micro-F1)."""

from __future__ import annotations

from collections.abc import Sequence

from longtail.errors import ParameterError
from longtail.metrics.named import LABEL_METRICS, LOWER_IS_BETTER, NEEDS_PROPENSITIES, MetricName
from longtail.metrics.sets import SET_METRICS

_SPELT = {name.lower(): name for name in SET_METRICS}
_OF_LABELS = frozenset(name for name in SET_METRICS if name.startswith("macro"))


def spelt(name: str) -> str:
    """Return an objective as metrics spell it, or raise ParameterError if there is none of this name."""
    if name.lower() in _SPELT:
        return _SPELT[name.lower()]
    try:
        return str(MetricName.parse(name))
    except ParameterError as error:
        raise ParameterError(f"{error}; of label sets: {', '.join(SET_METRICS)}") from None


def of_sets(objectives: Sequence[str]) -> list[str]:
    """Return the objectives that are metrics of label sets."""
    return [name for name in objectives if name in SET_METRICS]


def of_rankings(objectives: Sequence[str]) -> list[str]:
    """Return the objectives that are metrics of rankings."""
    return [name for name in objectives if name not in SET_METRICS]


def is_about_rare_labels(name: str) -> bool:
    """Return whether a metric says something about rare labels: by propensities, or label by label."""
    return name in _OF_LABELS or (
        name not in SET_METRICS and MetricName.parse(name).base in {*NEEDS_PROPENSITIES, *LABEL_METRICS}
    )


def goodness(name: str, value: float) -> float:
    """Return a metric so that more is better."""
    lower = name not in SET_METRICS and MetricName.parse(name).base in LOWER_IS_BETTER
    return -value if lower else value
