"""The numbers of a report: metrics with intervals beside other models, and by frequency band."""

from __future__ import annotations

from typing import Any

import numpy as np

from longtail.core.predictions import Predictions
from longtail.metrics import Matches, by_band, score
from longtail.report.case import Case, K
from longtail.workflow.compare import LEAST, beyond_chance, differences, intervals

# What a table shows, in its order; the intervals of the last two are over labels, all others over points.
SHOWN = ("P@1", "P@3", "P@5", "nDCG@5", "R@5", "PSP@1", "PSP@3", "PSP@5", "PSnDCG@5", "macro-F1@5", "coverage@5")
MEANING = {
    "P": "suggested labels that are right",
    "nDCG": "right labels, higher ranks count more",
    "R": "observed labels that are found",
    "PSP": "as P, rare labels count more",
    "PSnDCG": "as nDCG, rare labels count more",
    "macro-F1": "mean F1 over labels, all labels alike",
    "coverage": "observed labels that are right at least once",
}
BASELINE = "most frequent labels"


def with_baseline(case: Case) -> dict[str, Predictions]:
    """Return the predictions to compare with: the given ones, or the most frequent labels for every point."""
    if case.others or case.counts is None:
        return case.others
    order = np.argsort(-case.training_counts, kind="stable")[: case.k].astype(np.int32)
    labels = np.tile(order, (len(case.predictions), 1))
    scores = np.tile(-np.arange(order.size, dtype=np.float32), (len(case.predictions), 1))
    return {BASELINE: Predictions(labels, scores)}


def metrics(case: Case) -> dict[str, Any]:
    """Return the table of metrics: per metric its value and interval, and the same of the others with differences."""
    between = intervals(case.matches)
    others = {name: case.matched(found) for name, found in with_baseline(case).items()}
    compared = {name: differences(case.matches, other) for name, other in others.items()}
    rows = []
    for name in _names(case.matches):
        row: dict[str, Any] = {"name": name, "meaning": MEANING[name.partition("@")[0]], **_value(case.matches, name)}
        if name in between:
            row |= {"low": between[name].low, "high": between[name].high}
        row["others"] = [_beside(others[other], name, compared[other].get(name)) for other in others]
        rows.append(row)
    return {"others": list(others), "rows": rows, "few points": len(case.predictions) < LEAST}


def _names(matches: Matches) -> list[str]:
    scored, deepest = matches.inverse_propensities is not None, matches.labels.shape[1]
    return [n for n in SHOWN if (scored or not n.startswith("PS")) and int(n.partition("@")[2]) <= deepest]


def _value(matches: Matches, name: str) -> dict[str, float]:
    return {"value": 100 * score(matches, name)}


def _beside(matches: Matches, name: str, difference: Any) -> dict[str, Any]:
    if int(name.partition("@")[2]) > matches.labels.shape[1]:
        return {"value": None}
    found: dict[str, Any] = _value(matches, name)
    if difference is not None:
        found |= {"difference": difference.value, "low": difference.low, "high": difference.high}
        found["beyond"] = bool(beyond_chance(difference))
    return found


def bands(case: Case) -> list[dict[str, Any]]:
    """Return precision, recall and coverage of head, torso and tail, in percent; empty without training counts."""
    if case.counts is None:
        return []
    found = by_band(case.matches, case.k, case.training_counts)
    rows = []
    for number, (name, values) in enumerate(found.items()):
        counts = case.training_counts[(case.bands == number) & (case.training_counts > 0)]
        span = [int(counts.min()), int(counts.max())] if counts.size else [0, 0]
        rows.append(
            {
                "name": name, "labels": int(values["labels"]), "training": span,
                **{key: 100 * values[key] for key in values if key != "labels"},
            }
        )  # fmt: skip
    return rows


def summary(case: Case, table: dict[str, Any], by_frequency: list[dict[str, Any]]) -> list[str]:
    """Return the report in a few sentences."""
    values = {row["name"]: row for row in table["rows"]}
    first = values["P@1"]
    said = [
        f"Of 100 first suggestions, {first['value']:.0f} are right "
        f"(between {first['low']:.0f} and {first['high']:.0f} on other test points of this kind)."
    ]
    if f"R@{K}" in values:
        said.append(f"The first five suggestions find {values[f'R@{K}']['value']:.0f} % of the labels of a point.")
    if by_frequency:
        head, tail = by_frequency[0], by_frequency[-1]
        said.append(
            f"Frequent labels are found in {head['recall']:.0f} % of their occurrences, rare ones in "
            f"{tail['recall']:.0f} %."
        )
    for number, other in enumerate(table["others"]):
        judged = [row["others"][number] for row in table["rows"] if "beyond" in row["others"][number]]
        better = sum(own["beyond"] and own["difference"] > 0 for own in judged)
        worse = sum(own["beyond"] and own["difference"] < 0 for own in judged)
        said.append(f"Against {other}: better beyond chance in {better} of {len(judged)} metrics, worse in {worse}.")
    return said
