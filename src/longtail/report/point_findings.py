"""Points to look at: sampled from the worst and the best, with their words and the training points behind a label."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from longtail.core.explanation import Explanation, TokenWeight
from longtail.core.plain import plain
from longtail.errors import LongtailError
from longtail.features.evidence import Evidence
from longtail.metrics import terms
from longtail.report.case import Case

_POINTS = 4  # of each kind
_SHARE = 0.1  # the worst and the best tenth are sampled from
_TEXT = 700  # characters of a text
_BEGINNING = 220  # of these, from its beginning, where the words that matter come later
_TERMS = 6
_EVIDENCE = 160  # characters of a training point
_STEPS = 4  # shades of highlighting


def sampled_points(case: Case, chances: NDArray[np.float64] | None, *, random_state: int = 0) -> dict[str, Any]:
    """Return points from the worst and the best tenth by nDCG@k, with what was suggested and why."""
    usable = np.flatnonzero((case.matches.n_relevant > 0) & ~case.predictions.empty)
    if not usable.size:
        return {"worst": [], "best": []}
    quality = terms(case.matches, f"nDCG@{case.k}").numerators
    order = usable[np.argsort(quality[usable], kind="stable")]
    size = max(min(_POINTS, order.size // 2), 1, round(_SHARE * order.size))
    rng = np.random.default_rng(random_state)
    evidence = _evidence(case)
    found = {}
    for kind, group in (("worst", order[:size]), ("best", order[size:][-size:][::-1])):
        rows = np.sort(rng.permutation(group.size)[:_POINTS])
        found[kind] = [_point(case, int(group[row]), chances, evidence) for row in rows]
    return found


def _evidence(case: Case) -> Evidence | None:
    if case.model is None or case.training is None:
        return None
    inputs = case.training.texts if case.model.input_kind == "text" else case.training.X
    if inputs is None:
        return None
    return Evidence(case.model, inputs, case.training.binary().Y, ids=case.training.ids)


def _point(case: Case, row: int, chances: NDArray[np.float64] | None, evidence: Evidence | None) -> dict[str, Any]:
    k, labels, truth = case.k, case.predictions.labels[row], case.matches.truth
    true = truth.indices[truth.indptr[row] : truth.indptr[row + 1]]
    suggested = [
        {
            "name": case.name(label), "right": bool(case.matches.hits[row, j]),
            "training_count": int(case.training_counts[label]),
            "probability": None if chances is None else round(float(chances[row, j]), 3),
        }
        for j, label in enumerate(labels[:k].tolist())
        if label >= 0
    ]  # fmt: skip
    missed = np.setdiff1d(true, labels[:k]).tolist()
    ids = case.data.ids
    text = "" if case.data.texts is None else case.data.texts[row]
    found: dict[str, Any] = {
        "id": plain(ids[row], 80) if ids is not None else str(row), "suggested": suggested,
        "missed": [{"name": case.name(label), "training_count": int(case.training_counts[label])} for label in missed],
        "text": highlighted(text, ()),
    }  # fmt: skip
    return found | _explained(case, row, int(labels[0]), text, evidence)


def _explained(case: Case, row: int, label: int, text: str, evidence: Evidence | None) -> dict[str, Any]:
    if case.model is None:
        return {"explained": None}
    point = text if case.model.input_kind == "text" else case.data.X[row]
    try:
        found = case.model.explain(point, label)
    except LongtailError:
        return {"explained": None}
    result: dict[str, Any] = {"explained": case.name(label), "terms": _terms(found)}
    if case.model.input_kind == "text":
        result["text"] = highlighted(text, found.tokens)
    if evidence is not None:
        result["evidence"] = [
            {"id": plain(near.id, 80), "similarity": near.similarity, "text": _beginning(near.text)}
            for near in evidence.of(point, label, 2)
        ]
    return result


def _beginning(text: str) -> str:
    """Return the first words of a text, and a sign that it goes on if it does."""
    end = len(text) if len(text) <= _EVIDENCE else _between_words(text, _EVIDENCE)
    return _one_line(text[:end]) + " …" * (end < len(text))


def _terms(found: Explanation) -> list[dict[str, Any]]:
    """Return the terms with the largest contributions, each with its size relative to the largest."""
    if found.is_sum:
        sizes = {own.name: own.contribution for own in found.features}
    else:
        sizes = {}
        for token in found.tokens:
            sizes[token.token] = sizes.get(token.token, 0.0) + token.weight
    ranked = sorted(sizes.items(), key=lambda own: -abs(own[1]))[:_TERMS]
    largest = max((abs(size) for _, size in ranked), default=0.0) or 1.0
    return [
        {"name": plain(name, 60), "adds": round(size, 4), "share": round(abs(size) / largest, 3)}
        for name, size in ranked
        if size
    ]


def highlighted(text: str, tokens: Sequence[TokenWeight]) -> list[dict[str, Any]]:
    """Return what matters of a text, in runs with the same step: above 0 for a label, below 0 against it."""
    weights = np.zeros(len(text))
    for token in tokens:
        weights[token.start : token.end] += token.weight
    spans = _stretches(text, weights)
    largest = max((np.abs(weights[a:b]).max(initial=0.0) for a, b in spans), default=0.0) or 1.0
    steps = (np.sign(weights) * np.ceil(_STEPS * np.abs(weights) / largest - 0.5)).astype(int)  # small ones stay plain
    runs = []
    for a, b in spans:
        runs += [{"text": " … ", "step": 0}] if a else []
        edges = np.concatenate([[a], a + 1 + np.flatnonzero(np.diff(steps[a:b])), [b]]).tolist()
        runs += [{"text": _one_line(text[c:d], strip=False), "step": int(steps[c])} for c, d in pairwise(edges)]
    return runs + ([{"text": " …", "step": 0}] if spans and spans[-1][1] < len(text) else [])


def _stretches(text: str, weights: NDArray[np.float64]) -> list[tuple[int, int]]:
    """Return what to show: the beginning of a text and, if it comes later, the stretch with the most weight."""
    if len(text) <= _TEXT:
        return [(0, len(text))] if text else []
    sums = np.concatenate([[0.0], np.cumsum(np.abs(weights))])
    width = _TEXT - _BEGINNING
    inside = sums[width:] - sums[:-width]
    if inside.max() <= sums[_TEXT]:
        return [(0, _between_words(text, _TEXT))]
    best = np.flatnonzero(inside >= inside.max() * (1 - 1e-9))
    begin = _between_words(text, int(best[0] + best[-1]) // 2 if best[-1] - best[0] < width else int(best[0]))
    begin = max(begin, _BEGINNING)
    return [(0, _between_words(text, _BEGINNING)), (begin, _between_words(text, min(begin + width, len(text))))]


def _between_words(text: str, place: int) -> int:
    """Return the nearest place at or before this one that is after a space; the place itself in a long word."""
    for earlier in range(place, max(place - 30, 0), -1):
        if earlier == len(text) or text[earlier - 1].isspace():
            return earlier
    return place


def _one_line(text: str, *, strip: bool = True) -> str:
    spaced = "".join(" " if character.isspace() else character for character in text)
    return plain(" ".join(spaced.split()) if strip else spaced, 4 * _TEXT)
