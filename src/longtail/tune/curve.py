"""One fit as a curve: beams and exponents are swept on the predictions for held-out points, without a new training."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any

import numpy as np

from longtail.compose.candidates import best_of, log_quotient
from longtail.core import registry
from longtail.core.calibration import CalibrationOfGroups
from longtail.core.estimator import Estimator
from longtail.core.predictions import Predictions
from longtail.core.unseen import n_score_groups, score_groups
from longtail.errors import DataError
from longtail.metrics import Matches
from longtail.metrics.named import LOWER_IS_BETTER, MetricName, score
from longtail.tune.candidate import RERANK
from longtail.tune.points import Part
from longtail.workflow.apply import predict_in_chunks

EXPONENTS = tuple(round(0.025 * i, 3) for i in range(41))  # a tenth may cost a point of P@1, and leave a price unspent
_PREDICTED = EXPONENTS[::4]  # of models with an exponent of their own, each of which takes a prediction
BEAMS = (5, 10, 20, 40)
SWEPT = ("beam", "exponent")

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
        Metrics, e.g. "P@1".
    swept : collection of str, default ("beam", "exponent")
        Options that are swept.

    Returns
    -------
    list of dict
        One per beam (of models with beams) and exponent: `metrics` in percent by name, `exponent`, and the options of
        `predict` that give them.
    """
    deepest = max(MetricName.parse(name).k for name in objectives)
    k = min(max(deepest, registry.estimator_class(RERANK)().candidates), model.n_labels_)
    points: list[Point] = []
    beams = [{"beam": beam} for beam in BEAMS] if "beam" in model.options() & set(swept) else [{}]
    for options in beams:
        own = model.adjusted(**options) if options else model
        for exponent, ranked in _ranked(own, dev, part, k, deepest) if "exponent" in swept else _as_is(own, dev, k):
            kept = ranked.top(min(deepest, ranked.k))
            matches = Matches.of(kept, part.Y_dev, inverse_propensities=part.inverse)
            metrics = {name: 100.0 * score(matches, name) for name in objectives}
            points.append({"metrics": metrics, **options, **exponent})
    return points


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


def goodness(name: str, value: float) -> float:
    """Return a metric so that more is better."""
    return -value if MetricName.parse(name).base in LOWER_IS_BETTER else value


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
