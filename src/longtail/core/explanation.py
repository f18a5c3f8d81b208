"""Explanations: how much each token of a text contributed to the score of a label."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TokenWeight:
    """The contribution of one token to the score of a label.

    Attributes
    ----------
    token : str
        The token as the model reads it.
    start : int
        Where the token begins: it is `text[start:end]`.
    end : int
        Where the token ends.
    weight : float
        How much the token speaks for the label, or against it if negative; absolute weights of a text sum to 1.
    """

    token: str
    start: int
    end: int
    weight: float


@dataclass(frozen=True)
class Explanation:
    """The score of a label for one text, and what each token contributed.

    Attributes
    ----------
    label : int
        Id of the label.
    score : float
        Score of the label.
    tokens : list of TokenWeight
        Tokens in the order of the text.
    """

    label: int
    score: float
    tokens: list[TokenWeight]
