"""Scores as probabilities: how far they can be trusted, what a threshold gives, and what an exponent trades.

The probabilities here are calibrated on the test points themselves, by cross-fitting: those of one half by the labels
of the other half. They show what the scores can say once they are calibrated, whether or not the model is.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from longtail.compose.candidates import best_of, log_quotient
from longtail.core.calibration import Calibration, log_probability
from longtail.errors import DataError
from longtail.metrics import BAND_NAMES, score
from longtail.report.case import Case

Floats = NDArray[np.float64]

_BINS = 10
_LEAST = 20  # predictions in a bin that is drawn
_THRESHOLDS = np.round(np.linspace(0.02, 0.98, 49), 2)
_EXPONENTS = np.round(np.linspace(0, 1, 11), 1)


def log_odds(case: Case) -> Floats | None:
    """Return cross-fitted log-odds of all candidates, -inf for padding; None if scores cannot be calibrated."""
    found, hits = case.predictions, case.matches.hits
    half = np.random.default_rng(0).permutation(len(found)) % 2
    result = np.full(found.scores.shape, -np.inf)
    for own in (0, 1):
        rows, others = half == own, half != own
        proposed = found.labels[others] >= 0
        try:
            fitted = Calibration.fit(found.scores[others][proposed], hits[others][proposed])
        except DataError:
            return None
        result[rows] = fitted(found.scores[rows].astype(np.float64))
    result[found.labels < 0] = -np.inf
    return result


def reliability(case: Case, odds: Floats) -> dict[str, Any]:
    """Return how often labels with a given probability are right among the first k, over all and by band."""
    k = case.k
    labels, hits, chances = case.predictions.labels[:, :k], case.matches.hits[:, :k], expit(odds[:, :k])
    proposed = labels >= 0
    lines = [{"name": "all labels", **_bins(chances[proposed], hits[proposed])}]
    if case.counts is not None:
        for number, name in enumerate(BAND_NAMES):
            own = proposed & (case.bands[labels] == number)
            if own.any():
                lines.append({"name": name, **_bins(chances[own], hits[own])})
    return {"k": k, "lines": lines}


def _bins(chances: Floats, hits: NDArray[np.bool_]) -> dict[str, Any]:
    """Return mean probability and share of hits per bin, and the expected calibration error in percentage points."""
    number = np.minimum((chances * _BINS).astype(int), _BINS - 1)
    sizes = np.bincount(number, minlength=_BINS)
    means = np.bincount(number, chances, _BINS) / np.maximum(sizes, 1)
    right = np.bincount(number, hits, _BINS) / np.maximum(sizes, 1)
    error = float((sizes * np.abs(means - right)).sum() / max(sizes.sum(), 1))
    kept = sizes >= _LEAST
    return {
        "ece": 100 * error, "n": int(sizes.sum()), "probability": means[kept].round(4).tolist(),
        "right": right[kept].round(4).tolist(), "sizes": sizes[kept].tolist(),
    }  # fmt: skip


def thresholds(case: Case, odds: Floats) -> dict[str, Any]:
    """Return precision, recall and F1 over all predictions (micro) as the threshold on probabilities rises."""
    chances, hits = expit(odds), case.matches.hits
    n_true, n_points = int(case.matches.n_relevant.sum()), len(case.predictions)
    curve = []
    for threshold in _THRESHOLDS.tolist():
        chosen = chances >= threshold
        n, right = int(chosen.sum()), int((chosen & hits).sum())
        curve.append(
            {
                "threshold": threshold, "precision": 100 * right / max(n, 1), "recall": 100 * right / max(n_true, 1),
                "f1": 200 * right / max(n + n_true, 1), "labels per point": n / n_points,
            }
        )  # fmt: skip
    budget = n_true / n_points
    return {
        "curve": curve,
        "best": max(curve, key=lambda own: own["f1"]),
        "budget": min(curve, key=lambda own: abs(own["labels per point"] - budget)),
        "observed labels per point": budget,
        "candidates": case.predictions.k,
    }


def frontier(case: Case, odds: Floats) -> list[dict[str, float]]:
    """Return P and PSP at 1 and k as candidates are ranked by P / p^exponent; empty without propensities."""
    if case.matches.inverse_propensities is None:
        return []
    labels, log_inverse = case.predictions.labels, np.log(case.matches.inverse_propensities)
    rows = []
    for exponent in _EXPONENTS.tolist():
        scores = log_quotient(labels, odds, log_inverse, exponent)
        matches = case.matched(best_of(labels, scores, case.k))
        names = [f"{name}@{k}" for k in dict.fromkeys((1, case.k)) for name in ("P", "PSP", "coverage")]
        rows.append({"exponent": exponent, **{name: 100 * score(matches, name) for name in names}})
    return rows


def probability_of(odds: Floats | None) -> Floats | None:
    """Return log-odds as probabilities."""
    return None if odds is None else np.exp(log_probability(odds))
