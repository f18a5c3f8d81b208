"""Labels that need a look: suggested too often, never suggested, suggested instead of others; and propensities."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from longtail.errors import LongtailError
from longtail.metrics import BAND_NAMES, label_table
from longtail.objectives import PropensityModel, fit_propensities, hierarchy_counts
from longtail.report.case import Case

_SHOWN = 12
_LEAST_PAIRS = 3  # points with the same confusion, at least


def table_of(case: Case) -> Any:
    """Return counts and metrics of every label among the first k."""
    return label_table(case.matches, case.k, case.training_counts)


def too_often(case: Case) -> list[dict[str, Any]]:
    """Return the labels with the most wrong suggestions that are suggested more often than they occur."""
    table = table_of(case)
    wrong = table["predicted_count"] - table["hits"]
    surplus = table["predicted_count"] > table["test_count"]
    order = np.argsort(-np.where(surplus, wrong, 0), kind="stable")[:_SHOWN]
    return [{**_shown(case, table[i]), "wrong": int(wrong[i])} for i in order.tolist() if surplus[i] and wrong[i] > 0]


def never(case: Case) -> dict[str, Any]:
    """Return the labels of the test points that are never suggested: the most frequent ones, and how many by band."""
    table = table_of(case)
    lost = (table["test_count"] > 0) & (table["predicted_count"] == 0)
    order = np.argsort(-np.where(lost, table["test_count"], 0), kind="stable")[:_SHOWN]
    by_band = [
        {"name": name, "never": int((lost & own).sum()), "labels": int(((table["test_count"] > 0) & own).sum())}
        for name, own in ((name, case.bands == number) for number, name in enumerate(BAND_NAMES))
    ]
    return {
        "labels": [_shown(case, table[i]) for i in order.tolist() if lost[i]],
        "n": int(lost.sum()),
        "observed": int((table["test_count"] > 0).sum()),
        "bands": by_band if case.counts is not None else [],
    }


def _shown(case: Case, row: Any) -> dict[str, Any]:
    return {"name": case.name(int(row["label"])), "band": BAND_NAMES[case.bands[row["label"]]]} | {
        key: int(row[key]) for key in ("training_count", "test_count", "predicted_count", "hits")
    }


def confusions(case: Case) -> list[dict[str, Any]]:
    """Return pairs of labels: one that was missed, and one that was wrongly suggested in its place.

    Of a point with m labels, the first m suggestions count (at most k). For the choice of pairs, a missed label shares
    its point equally among the wrong suggestions there, so that a point counts once per missed label.
    """
    truth, labels, hits = case.matches.truth, case.matches.labels, case.matches.hits
    pairs: Counter[tuple[int, int]] = Counter()
    weights: Counter[tuple[int, int]] = Counter()
    for row in range(labels.shape[0]):
        true = truth.indices[truth.indptr[row] : truth.indptr[row + 1]]
        m = min(true.size, case.k)
        wrong = labels[row, :m][~hits[row, :m] & (labels[row, :m] >= 0)].tolist()
        if not wrong:
            continue
        missed = np.setdiff1d(true, labels[row, : case.k]).tolist()
        for own in missed:
            for other in wrong:
                pairs[own, other] += 1
                weights[own, other] += 1 / len(wrong)  # type: ignore[assignment]
    often = [pair for pair, _ in weights.most_common() if pairs[pair] >= _LEAST_PAIRS][:_SHOWN]
    often.sort(key=lambda pair: -pairs[pair])  # as people expect of a table of numbers
    total = np.bincount(truth.indices, minlength=case.matches.n_labels)
    return [
        {
            "missed": case.name(own), "suggested": case.name(other), "points": pairs[own, other],
            "test_count": int(total[own]),
        }
        for own, other in often
    ]  # fmt: skip


def propensity_curve(case: Case) -> dict[str, Any] | None:
    """Return the propensity model over label frequencies and, where a hierarchy is known, what the data says."""
    if case.counts is None or case.n_points is None:
        return None
    counts = case.counts[case.counts > 0]
    at = np.unique(np.round(np.geomspace(1, max(int(counts.max(initial=1)), 2), 60)).astype(int))
    edges = np.unique(np.round(np.geomspace(1, counts.max(initial=1) + 1, 16)).astype(int))
    sizes, _ = np.histogram(counts, edges)
    found: dict[str, Any] = {
        "A": case.propensity.A, "B": case.propensity.B, "counts": at.tolist(),
        "propensities": case.propensity.propensities(at, case.n_points).round(4).tolist(),
        "edges": edges.tolist(), "labels": sizes.tolist(), "fit": None,
    }  # fmt: skip
    found["fit"], found["why no fit"] = _fit(case, at)
    return found


def _fit(case: Case, at: Any) -> tuple[dict[str, Any] | None, str]:
    vocabulary = getattr(case.model, "vocabulary_", None)
    if vocabulary is None or not vocabulary.parents():
        return None, "no hierarchy of the labels is known (train with --vocabulary)"
    if case.training is None or case.training.label_names is None or case.n_points is None:
        return None, "the fit to the hierarchy needs the training data (--train)"
    try:
        complete = hierarchy_counts(case.training.binary().Y, case.training.label_names, vocabulary.parents())
        fitted = fit_propensities(complete.counts, complete.complete_counts, case.n_points)
    except LongtailError as error:
        return None, f"the hierarchy gives no fit: {error}"
    model: PropensityModel = fitted.model
    return {
        "A": model.A, "B": model.B, "r2": fitted.r2, "n_labels": fitted.n_labels,
        "propensities": model.propensities(at, case.n_points).round(4).tolist(),
        "frequency": fitted.frequency.round(2).tolist(), "observed": fitted.propensity.round(4).tolist(),
    }, ""  # fmt: skip
