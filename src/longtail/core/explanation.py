"""Why a label: what a model found in one point, token by token."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TokenWeight:
    """How much one token, `text[start:end]`, spoke for a label; the weights of a text add up to 1 in absolute value."""

    token: str
    start: int
    end: int
    weight: float


@dataclass(frozen=True)
class Explanation:
    """What a model looked at: the label's score and the weights of the text's tokens, in their order."""

    label: int
    score: float
    tokens: list[TokenWeight]
