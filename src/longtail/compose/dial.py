"""The weighting of a base, chosen together with the exponent of its re-ranker, at one price.

An exponent moves labels that a base has found likely; a weighting decides what the base finds. On some data a point of
precision buys more by one, on some by the other (docs/auto.md), so both are chosen on the same unseen points.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from longtail.compose.candidates import Candidates
from longtail.compose.price import Frontier
from longtail.core.calibration import CalibrationOfGroups, Floats
from longtail.core.unseen import Unseen
from longtail.errors import ParameterError
from longtail.metrics import Matches
from longtail.objectives import resolve_weighting

STRENGTHS = (0.25, 0.5, 0.75, 1.0)  # of a weighting that is named without one
RESERVE = 0.5  # of a standard error of the loss; chosen by benchmarks.tail.rehearse


def weightings_on(dial: Any) -> list[str]:
    """Return the weightings that are tried beside the base's own, or raise ParameterError.

    Parameters
    ----------
    dial : str or list of str
        "pw-cb" for its strengths, or weightings by name.

    Returns
    -------
    list of str
        E.g. "pw-cb:0.25".
    """
    listed = [dial] if isinstance(dial, str) else dial
    if not isinstance(listed, (list, tuple)) or not listed or not all(isinstance(name, str) for name in listed):
        raise ParameterError(f'dial is {dial!r}, but must be a weighting, e.g. "pw-cb", or a list of them')
    whole = isinstance(dial, str) and ":" not in dial
    names = [f"{dial}:{strength:g}" for strength in STRENGTHS] if whole else list(listed)
    for name in names:
        resolve_weighting(name)
    return names


def candidates_of(unseen: Unseen, truth: Any) -> Candidates:
    """Return what a base proposed for unseen points, calibrated on them."""
    found = unseen.predictions
    hits = Matches.of(found, truth).hits
    calibration = CalibrationOfGroups.fit(found, hits, unseen.groups, int(unseen.groups.max(initial=0)) + 1)
    return Candidates(found.labels, calibration(found.scores, unseen.groups), hits, truth)


def chosen_on(tried: Sequence[Candidates], inverse: Floats, max_loss: float, metric: str) -> tuple[int, float]:
    """Return which base of a dial to take, and its exponent.

    Parameters
    ----------
    tried : sequence of Candidates
        What each base proposes for the same unseen points; the price counts from the first one without an exponent.
    inverse : ndarray of shape (n_labels,)
        1 / p_l of each label.
    max_loss : float
        Share of the metric that may be lost.
    metric : str
        In which the price is stated.

    Returns
    -------
    tuple of int and float
        Number of the base and exponent; of equal ones the first.
    """
    own = Frontier.below_base(tried[0], inverse, max_loss, metric)
    own = replace(own, reference=own.values(tried[0].log_odds, 0.0), share=RESERVE)
    best = [replace(own, held=held).best(held.log_odds, max_loss) for held in tried]
    number = int(np.argmax([worth for _, worth in best]))
    return number, best[number][0]
