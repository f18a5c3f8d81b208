"""From texts to suggestions: which labels to ask the model for, and which of them to return in which order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from longtail.core.calibration import log_probability
from longtail.serve.batching import BatchQueue
from longtail.serve.models import Found, Served
from longtail.serve.probabilities import LEAST, shown, toward_tail
from longtail.serve.problems import Problem
from longtail.workflow.decide import REORDERED

_STEPS = (10, 20, 50, 100, 200, 500, 1000)  # numbers of labels that are asked for, so that requests share batches


@dataclass(frozen=True)
class Wish:
    """What a request asks for.

    Parameters
    ----------
    limit : int, default 10
        Labels per text.
    threshold : float, default 0.0
        Leave out labels with a lower probability.
    exponent : float or None, default None
        Rank by P / p^exponent; None means the model's own, 0 by probability.
    exclude : frozenset of int, default frozenset()
        Numbers of labels never to suggest.
    """

    limit: int = 10
    threshold: float = 0.0
    exponent: float | None = None
    exclude: frozenset[int] = frozenset()


class Suggestion(NamedTuple):
    """One suggested label.

    Parameters
    ----------
    label : int
        Number of the label.
    score : float
        What it is ranked by, in (0, 1].
    probability : float
        Its probability, in (0, 1].
    """

    label: int
    score: float
    probability: float


def check_text(text: str, most: int, place: str = "text") -> str:
    """Return a text, or raise a problem if it is too long or has characters that no text has.

    Parameters
    ----------
    text : str
        The text.
    most : int
        Characters that it may have.
    place : str, default "text"
        Where it is in the request.

    Returns
    -------
    str
    """
    if len(text) > most:
        raise Problem(413, f"{place}: has {len(text):,} characters, but at most {most:,} are allowed")
    if "\0" in text:
        raise Problem(400, f"{place}: has a NUL character (position {text.index(chr(0))}); remove it")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise Problem(400, f"{place}: has a lone surrogate (position {error.start}); send whole characters") from error
    return text


def check_texts(texts: Sequence[str], most: int, place: str) -> list[str]:
    """Return texts, or raise the problem of one of them; `place` has {} for its number, e.g. "documents.{}.text"."""
    return [check_text(text, most, place.format(number)) for number, text in enumerate(texts)]


async def suggest(queue: BatchQueue, served: Served, texts: Sequence[Any], wish: Wish) -> list[list[Suggestion]]:
    """Return suggestions for each text, best first.

    Parameters
    ----------
    queue : BatchQueue
        Where the texts wait for the model.
    served : Served
        Model.
    texts : sequence
        Texts, or rows of features for a model that reads these.
    wish : Wish
        What to return.

    Returns
    -------
    list of list of Suggestion
    """
    if wish.limit == 0 or not len(texts):
        return [[] for _ in texts]
    k = _asked(served, wish)
    found = await queue.submit((served, k), lambda inputs: served.predict(inputs, k), texts)
    return [_chosen(served, one, wish) for one in found]


def _asked(served: Served, wish: Wish) -> int:
    """Return the number of labels to ask the model for: a function of the request alone, whatever else is waiting."""
    wanted = wish.limit + len(wish.exclude)
    if served.reorders or (served.exponent if wish.exponent is None else wish.exponent):
        wanted = max(wanted, REORDERED)
    step = next((step for step in _STEPS if step >= wanted), wanted)
    return min(step, len(served.labels))


def _chosen(served: Served, found: Found, wish: Wish) -> list[Suggestion]:
    exponent = served.exponent if wish.exponent is None else wish.exponent
    if exponent:
        return _toward_tail(served, found, wish, exponent)
    pairs = found.pairs
    if not found.by_probability:  # calibrated by label frequency, probabilities have their own order
        pairs = sorted(pairs, key=lambda pair: (-pair[1], pair[0]))
    if wish.threshold > 0:
        pairs = [pair for pair in pairs if pair[1] >= wish.threshold]
    if wish.exclude:
        pairs = [pair for pair in pairs if pair[0] not in wish.exclude]
    plain = ((label, max(round(probability, 6), LEAST)) for label, probability in pairs[: wish.limit])
    return [Suggestion(label, score, score) for label, score in plain]


def _toward_tail(served: Served, found: Found, wish: Wish, exponent: float) -> list[Suggestion]:
    labels, log_odds = found.labels, found.log_odds
    kept = labels >= 0
    if wish.threshold > 0:
        kept &= np.exp(log_probability(log_odds)) >= wish.threshold
    if wish.exclude:
        kept &= ~np.isin(labels, list(wish.exclude))
    labels, log_odds = labels[kept], log_odds[kept]
    order, scores = toward_tail(labels, log_odds, served.labels.log_inverse, exponent)
    order, scores = order[: wish.limit], scores[: wish.limit]
    best, probabilities = labels[order].tolist(), shown(log_odds[order]).tolist()
    return [Suggestion(*one) for one in zip(best, _rounded(scores.tolist()), _rounded(probabilities), strict=True)]


def _rounded(values: list[float]) -> list[float]:
    return [max(round(value, 6), LEAST) for value in values]
