"""Compare predictions of the same points by several models: which differences are beyond chance."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from longtail.core.predictions import Predictions
from longtail.errors import DataError
from longtail.metrics import Interval, Matches, Terms, bootstrap, hoeffding, label_terms, paired_bootstrap, terms

KS = (1, 3, 5)
LEAST = 20  # points, or labels: resamples of fewer are too much alike to say what others would give
_LEVEL = 0.95


def metric_terms(matches: Matches) -> dict[str, Terms]:
    """Return the metrics that are means over points: P, nDCG and R, with propensities PSP and PSnDCG, at 1, 3 and 5."""
    names = ("P", "nDCG", "R") if matches.inverse_propensities is None else ("P", "nDCG", "R", "PSP", "PSnDCG")
    ks = [k for k in KS if k <= matches.labels.shape[1]]
    return {f"{name}@{k}": terms(matches, f"{name}@{k}") for name in names for k in ks}


def intervals(matches: Matches) -> dict[str, Interval]:
    """Return metrics in percent with their intervals: over points; of macro-F1 and coverage over labels."""
    found = _between(metric_terms(matches))
    deepest = _deepest(matches)
    return _in_percent(found | (_between(label_terms(matches, deepest)) if deepest else {}))


def differences(matches: Matches, other: Matches) -> dict[str, Interval]:
    """Return the difference of each metric between two models, in percentage points, with its paired interval."""
    found = _apart(metric_terms(matches), metric_terms(other))
    width, deepest = max(matches.n_labels, other.n_labels), min(_deepest(matches), _deepest(other))
    if deepest:
        found |= _apart(*(label_terms(one, deepest, n_labels=width) for one in (matches, other)))
    return _in_percent(found)


def _between(metrics: Mapping[str, Terms]) -> dict[str, Interval]:
    """Return intervals by the bootstrap or, for few points, by Hoeffding's bound, which holds for any number."""
    if _are_few(metrics):
        return {name: hoeffding(own, level=_LEVEL) for name, own in metrics.items()}
    return bootstrap(metrics, level=_LEVEL)


def _apart(metrics: Mapping[str, Terms], others: Mapping[str, Terms]) -> dict[str, Interval]:
    """Return paired intervals or, for few points, those of two bounds that hold at the same time."""
    if not _are_few(metrics):
        return paired_bootstrap(metrics, others, level=_LEVEL)
    level = (1 + _LEVEL) / 2
    found = {}
    for name in (name for name in metrics if name in others):
        own, other = hoeffding(metrics[name], level=level), hoeffding(others[name], level=level)
        found[name] = Interval(own.value - other.value, own.low - other.high, own.high - other.low)
    return found


def _are_few(metrics: Mapping[str, Terms]) -> bool:
    return any(own.numerators.size < LEAST for own in metrics.values())


def _deepest(matches: Matches) -> int:
    return max((k for k in KS if k <= matches.labels.shape[1]), default=0)


def _in_percent(found: dict[str, Interval]) -> dict[str, Interval]:
    return {name: Interval(*(100 * end for end in interval)) for name, interval in found.items()}


def beyond_chance(difference: Interval) -> bool:
    """Return whether the interval of a difference does not contain 0."""
    return difference.low > 0 or difference.high < 0


def in_labels_of(
    predictions: Predictions, own: Any, reference: Any, *, shown: str, reference_shown: str
) -> Predictions:
    """Return the predictions of one model in the label ids of another.

    Parameters
    ----------
    predictions : Predictions
        Predictions of `own`.
    own : Estimator
        Model that predicted.
    reference : Estimator
        Model whose label ids are wanted.
    shown : str
        What messages call `own`.
    reference_shown : str
        What messages call `reference`.

    Returns
    -------
    Predictions

    Raises
    ------
    DataError
        If the two have different labels.
    """
    mine, wanted = own.label_names_, reference.label_names_
    remedy = "compare models that were trained on the same labels, or write predictions and compare the files"
    if (mine is None) != (wanted is None):
        without = shown if mine is None else reference_shown
        raise DataError(f"{without} was trained without label names, the other with names; {remedy}")
    if mine is None:
        if own.n_labels_ != reference.n_labels_:
            raise DataError(
                f"{shown} has {own.n_labels_:,} labels, {reference_shown} has {reference.n_labels_:,}; {remedy}"
            )
        return predictions
    if mine == wanted:
        return predictions
    place = {name: i for i, name in enumerate(wanted)}
    only = next((name for name in mine if name not in place), None) or next(
        (name for name in wanted if name not in set(mine)), None
    )
    if only is not None:
        raise DataError(
            f"{shown} has {len(mine):,} labels, {reference_shown} has {len(wanted):,}, and only one of them has "
            f"{only!r}; {remedy}"
        )
    number = np.append([place[name] for name in mine], -1).astype(np.int32)
    return Predictions(number[predictions.labels], predictions.scores, predictions.n_labels, wanted)
