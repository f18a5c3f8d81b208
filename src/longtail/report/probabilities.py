"""Scores as probabilities: how far they can be trusted, what a threshold gives, and what an exponent trades.

A calibrated model has probabilities of its own. For others they are calibrated here on the test points themselves, by
cross-fitting: those of one half by the labels of the other half.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

from longtail.compose.candidates import best_of, log_quotient
from longtail.core.calibrated import with_probabilities
from longtail.core.calibration import Calibration, log_probability
from longtail.core.predictions import PAD_SCORE, Predictions
from longtail.errors import DataError, ParameterError
from longtail.metrics import reliability as binned
from longtail.metrics import score
from longtail.report.case import Case

Floats = NDArray[np.float64]

_LEAST = 20  # predictions in a bin that is drawn
_LEAST_CHANCE = 1e-12  # probabilities of 0 and 1 have no log-odds
_THRESHOLDS = np.round(np.linspace(0.02, 0.98, 49), 2)
_EXPONENTS = np.round(np.linspace(0, 1, 11), 1)


def is_calibrated(case: Case) -> bool:
    """Return whether the model has probabilities of its own."""
    return case.model is not None and bool(case.model.has_probabilities())


def log_odds(case: Case) -> Floats | None:
    """Return the log-odds of all candidates, -inf for padding; None if scores cannot be calibrated."""
    found, hits = case.predictions, case.matches.hits
    if is_calibrated(case):
        chances = with_probabilities(case.model, found).scores.astype(np.float64)
        return np.where(found.labels >= 0, logit(np.clip(chances, _LEAST_CHANCE, 1 - _LEAST_CHANCE)), PAD_SCORE)
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
    chances = Predictions(case.predictions.labels, np.where(case.predictions.labels >= 0, expit(odds), PAD_SCORE))
    found = binned(chances, case.matches.truth, k=case.k, training_counts=case.counts)
    lines = []
    for name, own in found.items():
        kept = own.number >= _LEAST
        if name == "all" or kept.any():
            lines.append(
                {
                    "name": "all labels" if name == "all" else name, "ece": 100 * own.error, "n": int(own.number.sum()),
                    "probability": own.probability[kept].round(4).tolist(),
                    "right": own.observed[kept].round(4).tolist(), "sizes": own.number[kept].tolist(),
                }
            )  # fmt: skip
    return {"k": case.k, "lines": lines, "of the model": is_calibrated(case)}


def thresholds(case: Case, odds: Floats) -> dict[str, Any]:
    """Return precision, recall and F1 over all predictions (micro) as the threshold on probabilities rises."""
    chances = expit(odds)
    observed = int(case.matches.n_relevant.sum()) / len(case.predictions)
    curve = [_at(case, chances, threshold) for threshold in _THRESHOLDS.tolist()]
    return {
        "curve": curve,
        "best": max(curve, key=lambda own: own["f1"]),
        "budget": _for_budget(case, chances, observed),
        "wanted labels per point": observed if case.budget is None else case.budget,
        "observed labels per point": observed,
        "candidates": case.predictions.k,
    }


def _at(case: Case, chances: Floats, threshold: float) -> dict[str, float]:
    chosen = chances >= threshold
    n, right, n_true = int(chosen.sum()), int((chosen & case.matches.hits).sum()), int(case.matches.n_relevant.sum())
    return {
        "threshold": threshold, "precision": 100 * right / max(n, 1), "recall": 100 * right / max(n_true, 1),
        "f1": 200 * right / max(n + n_true, 1), "labels per point": n / len(case.predictions),
    }  # fmt: skip


def _for_budget(case: Case, chances: Floats, observed: float) -> dict[str, float] | None:
    """Return what the threshold of a budget gives; None where as many labels as were observed are out of reach."""
    kept = np.sort(chances[case.predictions.labels >= 0])[::-1]
    n_wanted = round((observed if case.budget is None else case.budget) * len(case.predictions))
    if n_wanted <= kept.size:
        return _at(case, chances, float(kept[max(n_wanted, 1) - 1]))
    if case.budget is None:
        return None
    raise ParameterError(
        f"budget is {case.budget!r}, but there are only {kept.size / len(case.predictions):.3g} candidates per point; "
        "ask for less"
    )


def frontier(case: Case, odds: Floats) -> list[dict[str, float]]:
    """Return metrics as candidates are ranked by P / p^exponent; empty without propensities."""
    if case.matches.inverse_propensities is None:
        return []
    labels, log_inverse = case.predictions.labels, np.log(case.matches.inverse_propensities)
    rows = []
    for exponent in _EXPONENTS.tolist():
        scores = log_quotient(labels, odds, log_inverse, exponent)
        matches = case.matched(best_of(labels, scores, case.k))
        names = [f"{name}@{k}" for k in dict.fromkeys((1, case.k)) for name in ("P", "PSP")]
        names += [f"macro-F1@{case.k}", f"coverage@{case.k}"]
        rows.append({"exponent": exponent, **{name: 100 * score(matches, name) for name in names}})
    return rows


def probability_of(odds: Floats | None) -> Floats | None:
    """Return log-odds as probabilities."""
    return None if odds is None else np.exp(log_probability(odds))
