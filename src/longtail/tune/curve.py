"""One fit as a curve: beams, exponents and thresholds, swept on predictions for held-out points without a training."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from longtail.compose.candidates import best_of, log_quotient
from longtail.core import registry
from longtail.core.calibrated import answers_from, unseen_probabilities, with_probabilities
from longtail.core.calibration import CalibrationOfGroups
from longtail.core.estimator import Estimator
from longtail.core.predictions import Predictions
from longtail.core.unseen import n_score_groups, score_groups
from longtail.errors import DataError
from longtail.metrics import Matches
from longtail.metrics.named import MetricName, score
from longtail.metrics.sets import set_metrics
from longtail.tune.candidate import RERANK
from longtail.tune.objectives import goodness, of_rankings, of_sets
from longtail.tune.points import Part
from longtail.workflow.apply import predict_in_chunks
from longtail.workflow.decide import Decision

EXPONENTS = tuple(round(0.025 * i, 3) for i in range(41))  # a tenth may cost a point of P@1, and leave a price unspent
_PREDICTED = EXPONENTS[::4]  # of models with an exponent of their own, each of which takes a prediction
BEAMS = (5, 10, 20, 40)
THRESHOLD = 0.5  # of label sets, where nothing else is known
THRESHOLDS = (0.005, 0.01, 0.015, *(round(0.025 * i, 3) for i in range(1, 40)))
SWEPT = ("beam", "exponent")
_BY_PROBABILITY = Decision(threshold=THRESHOLD, probabilities=True)

Point = dict[str, Any]


def curve_of(
    model: Estimator, dev: Any, part: Part, objectives: Sequence[str], swept: Collection[str] = SWEPT
) -> list[Point]:
    """Return the points that one fitted model reaches.

    Parameters
    ----------
    model : Estimator
        Fitted on the training points of the part.
    dev : csr_matrix or texts
        The held-out inputs as the model reads them.
    part : Part
        Labels and propensities.
    objectives : sequence of str
        Metrics, e.g. "P@1", or "micro-F1" of label sets.
    swept : collection of str, default ("beam", "exponent")
        Options that are swept.

    Returns
    -------
    list of dict
        One per beam (of models with beams) and exponent: `metrics` in percent by name, `exponent`, and the options of
        `predict` that give them. With a metric of label sets: one per beam and `threshold`.
    """
    return list(
        _set_points(model, dev, part, objectives, swept)
        if of_sets(objectives)
        else _ranking_points(model, dev, part, objectives, swept)
    )


def _beams(model: Estimator, swept: Collection[str]) -> Iterator[tuple[Point, Estimator]]:
    """Yield the options that are swept by predicting again, and the model that has them."""
    for options in [{"beam": beam} for beam in BEAMS] if "beam" in model.options() & set(swept) else [{}]:
        yield options, model.adjusted(**options) if options else model


def _ranking_points(
    model: Estimator, dev: Any, part: Part, objectives: Sequence[str], swept: Collection[str]
) -> Iterator[Point]:
    deepest = max(MetricName.parse(name).k for name in objectives)
    k = min(max(deepest, registry.estimator_class(RERANK)().candidates), model.n_labels_)
    for options, own in _beams(model, swept):
        for exponent, ranked in _ranked(own, dev, part, k, deepest) if "exponent" in swept else _as_is(own, dev, k):
            yield {"metrics": _ranking_metrics(ranked, part, objectives), **options, **exponent}


def _ranking_metrics(ranked: Predictions, part: Part, objectives: Sequence[str]) -> dict[str, float]:
    deepest = max((MetricName.parse(name).k for name in objectives), default=1)
    matches = Matches.of(ranked.top(min(deepest, ranked.k)), part.Y_dev, inverse_propensities=part.inverse)
    return {name: 100.0 * score(matches, name) for name in objectives}


def _set_points(
    model: Estimator, dev: Any, part: Part, objectives: Sequence[str], swept: Collection[str]
) -> Iterator[Point]:
    """Yield one point per beam and threshold.

    Probabilities do not depend on an exponent, so it is not swept: rankings are scored as the model makes them.
    """
    rankings = of_rankings(objectives)
    deepest = min(max((MetricName.parse(name).k for name in rankings), default=1), model.n_labels_)
    for options, own in _beams(model, swept):
        found = predict_in_chunks(own, dev, min(_BY_PROBABILITY.width(own), model.n_labels_))
        ranked = found if found.k >= deepest else predict_in_chunks(own, dev, deepest)
        shared = _ranking_metrics(ranked, part, rankings)
        likely, matches = _probabilities(own, found, part), Matches.of(found, part.Y_dev)
        for threshold in THRESHOLDS:
            kept = likely >= threshold
            chosen = replace(matches, labels=np.where(kept, matches.labels, -1), hits=matches.hits & kept)
            reached = set_metrics(chosen)
            metrics = {name: shared[name] if name in shared else reached[name] for name in objectives}
            yield {"metrics": metrics, **options, "threshold": threshold}


def _probabilities(model: Estimator, found: Predictions, part: Part) -> Any:
    """Return the probabilities of predictions: of a model that calibrated itself, or each half taught by the other."""
    if model.own_calibration() is not None:
        return with_probabilities(model, found).scores
    return unseen_probabilities(model, answers_from(found, part.Y_dev))


def _as_is(model: Estimator, dev: Any, k: int) -> Iterator[tuple[Point, Predictions]]:
    yield {}, predict_in_chunks(model, dev, k)


def _ranked(model: Estimator, dev: Any, part: Part, k: int, deepest: int) -> Iterator[tuple[Point, Predictions]]:
    """Yield exponents and at least the `deepest` best of k labels in the order that they give."""
    if "exponent" in model.options():
        for exponent in _PREDICTED:
            yield {"exponent": exponent}, predict_in_chunks(model.adjusted(exponent=exponent), dev, k)
        return
    found = predict_in_chunks(model, dev, k)
    yield {}, found
    try:
        log_odds = _log_odds(model, found, part)
    except DataError:  # all scores are equal: nothing to divide by propensities
        return
    for exponent in EXPONENTS[1:]:
        quotient = log_quotient(found.labels, log_odds, np.log(part.inverse), exponent)
        yield {"exponent": exponent}, best_of(found.labels, quotient, min(deepest, k))


def _log_odds(model: Estimator, found: Predictions, part: Part) -> Any:
    """Return the log-odds of predictions, each half of the points calibrated on the other half."""
    hits = Matches.of(found, part.Y_dev).hits
    groups, n_groups = score_groups(model, found.labels), n_score_groups(model)
    log_odds = np.empty(found.scores.shape)
    for half in (0, 1):
        own, other = np.arange(len(found)) % 2 == half, np.arange(len(found)) % 2 != half
        fitted = CalibrationOfGroups.fit(found[other], hits[other], groups[other], n_groups)
        log_odds[own] = fitted(found.scores[own], groups[own])
    return log_odds


def mean_curve(curves: Sequence[list[Point]], sizes: Sequence[int]) -> list[Point]:
    """Return the mean of the curves of several folds, weighted by their held-out points."""
    if len(curves) == 1:
        return curves[0]
    by_options = [{_options(point): point["metrics"] for point in curve} for curve in curves]
    shared = [point for point in curves[0] if all(_options(point) in found for found in by_options)]
    return [
        point
        | {
            "metrics": {
                name: float(np.average([found[_options(point)][name] for found in by_options], weights=sizes))
                for name in point["metrics"]
            }
        }
        for point in shared
    ]


def _options(point: Point) -> tuple[tuple[str, Any], ...]:
    return tuple(sorted((key, value) for key, value in point.items() if key != "metrics"))


def at_price(curve: Sequence[Point], objectives: Sequence[str], price: float, best: float | None = None) -> list[Point]:
    """Return the points whose first objective is at most `price` below the best; the best of the curve by default."""
    first = [goodness(objectives[0], point["metrics"][objectives[0]]) for point in curve]
    least = (max(first) if best is None else best) - price
    return [point for point, value in zip(curve, first, strict=True) if value >= least - 1e-9]


def told(curve: Sequence[Point], objectives: Sequence[str], price: float) -> list[float]:
    """Return what a fit is worth, one number per objective, more is better.

    The first objective at its best on the curve; each other one at its best among the points that cost at most `price`
    of the first.
    """
    affordable = at_price(curve, objectives, price)
    chosen = [curve, *[affordable] * (len(objectives) - 1)]
    return [
        max(goodness(name, point["metrics"][name]) for point in points)
        for name, points in zip(objectives, chosen, strict=True)
    ]
