"""Metrics of label sets: precision, recall and F1, over all labels together, per label and per point.

A set is a row of `Predictions` without its padding (-1), whatever the scores are: `predict_sets` makes them. 0/0 is 0.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from longtail.core.predictions import Predictions
from longtail.metrics.labelwise import LabelCounts
from longtail.metrics.matches import Floats, Matches
from longtail.metrics.pointwise import divide

SET_METRICS = tuple(f"{mean}-{letter}" for mean in ("micro", "macro", "example") for letter in ("P", "R", "F1"))


def evaluate_sets(predictions: Predictions, Y: Any) -> dict[str, float]:
    """Return precision, recall and F1 of label sets, in percent.

    Parameters
    ----------
    predictions : Predictions
        One set per point: all labels of the row, padding left out.
    Y : (n, L) sparse or dense 0/1 matrix, or one list of label ids per point
        Observed labels.

    Returns
    -------
    dict of str to float
        `micro-P`, `micro-R`, `micro-F1` (hits of all labels over all predictions and occurrences), `macro-P`,
        `macro-R`, `macro-F1` (means over the labels), `example-P`, `example-R`, `example-F1` (means over the points),
        in percent, and `labels per point`.

    Notes
    -----
    The same as scikit-learn's `precision_recall_fscore_support` with `average` "micro", "macro" and "samples" and
    `zero_division=0`. Divisor of the macro averages: L, the number of columns of Y; a label neither predicted nor
    observed counts as 0, and so does a point with neither predictions nor labels.
    """
    return set_metrics(Matches.of(predictions, Y))


def set_metrics(matches: Matches) -> dict[str, float]:
    """Return what `evaluate_sets` does, of sets that are matched with observed labels."""
    sizes, hits = (matches.labels >= 0).sum(axis=1), matches.hits.sum(axis=1)
    by_label = LabelCounts.of(matches, max(matches.labels.shape[1], 1))
    whole = tuple(np.array([values.sum()], dtype=np.float64) for values in (hits, sizes, matches.n_relevant))
    found = {}
    for name, (right, predicted, true) in {
        "micro": whole,
        "macro": (by_label.hits, by_label.predicted, by_label.true),
        "example": (hits.astype(np.float64), sizes.astype(np.float64), matches.n_relevant.astype(np.float64)),
    }.items():
        for letter, values in _three(right, predicted, true).items():
            found[f"{name}-{letter}"] = 100 * float(values.mean())
    return found | {"labels per point": float(sizes.mean())}


def _three(hits: Floats, predicted: Floats, true: Floats) -> dict[str, Floats]:
    return {"P": divide(hits, predicted), "R": divide(hits, true), "F1": divide(2 * hits, predicted + true)}
