"""Explanations: how much each token of a text, or each feature of a point, contributed to the score of a label."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

_FLAT = 1e-12  # below this, contributions cancel each other and have no proportions


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
        How much the token speaks for the label, or against it if negative; absolute weights of a text sum to 1, or are
        all 0 where no token matters.
    """

    token: str
    start: int
    end: int
    weight: float


@dataclass(frozen=True)
class FeatureWeight:
    """The contribution of one feature to the score of a label.

    Attributes
    ----------
    feature : int
        Number of the feature.
    name : str
        The term that the feature stands for, or its number.
    value : float
        Value of the feature in this point.
    contribution : float
        What the feature adds to the score.
    """

    feature: int
    name: str
    value: float
    contribution: float


@dataclass(frozen=True)
class Neighbour:
    """A training point with the label, as evidence.

    Attributes
    ----------
    point : int
        Position in the training data, from 0.
    id : str
        Identifier of the point, or its position.
    similarity : float
        Cosine between its features and those of the explained point.
    text : str
        Its text; empty if there is none.
    """

    point: int
    id: str
    similarity: float
    text: str


@dataclass(frozen=True)
class Explanation:
    """The score of a label for one point, and what contributed to it.

    Attributes
    ----------
    label : int
        Id of the label.
    score : float
        Score of the label.
    tokens : list of TokenWeight
        Tokens in the order of the text; empty if the model reads features.
    bias : float or None
        The score without any feature; None for text networks, whose tokens have weights but no sum.
    features : list of FeatureWeight
        Features of the point in their order; their contributions and the bias sum to the score.
    evidence : list of Neighbour
        Training points with the label, the most similar first; empty unless asked for.
    """

    label: int
    score: float
    tokens: list[TokenWeight]
    bias: float | None = None
    features: list[FeatureWeight] = field(default_factory=list)
    evidence: list[Neighbour] = field(default_factory=list)

    @property
    def is_sum(self) -> bool:
        """Whether contributions and bias sum to the score."""
        return self.bias is not None

    def carried(self, bias: float, score: float) -> Explanation:
        """Return the explanation of a function of this score, which takes these values at bias and score.

        Contributions keep their proportions and sum to the new difference. For an increasing function these are its
        integrated gradients (Sundararajan et al. 2017, eq. 1) from the point without features.
        """
        if self.bias is None:
            return replace(self, score=score)
        factor = change_factor(self.score - self.bias, score - bias)
        moved = [replace(own, contribution=own.contribution * factor) for own in self.features]
        return replace(self, bias=bias, score=score, features=moved)


def change_factor(before: float, after: float) -> float:
    """Return after / before; 0 where contributions cancel, as then the function does not change either."""
    return after / before if abs(before) > _FLAT else 0.0


def feature_weights(
    features: NDArray[np.integer], values: NDArray[np.floating], contributions: NDArray[np.floating]
) -> list[FeatureWeight]:
    """Return features with their contributions, named by their numbers."""
    rows = zip(features.tolist(), values.tolist(), contributions.tolist(), strict=True)
    return [FeatureWeight(feature, str(feature), value, share) for feature, value, share in rows]


def added(label: int, parts: Sequence[Explanation]) -> Explanation:
    """Return the explanation of a sum of scores, each with its own explanation.

    Features are added up by their names: models that read the same texts may number their terms differently. Tokens are
    added up by their places.

    Parameters
    ----------
    label : int
        Id of the label.
    parts : sequence of Explanation
        Explanations that are sums.

    Returns
    -------
    Explanation
    """
    sums: dict[str, FeatureWeight] = {}
    places: dict[tuple[int, int], TokenWeight] = {}
    for part in parts:
        for own in part.features:
            known = sums.get(own.name, replace(own, contribution=0.0))
            sums[own.name] = replace(known, contribution=known.contribution + own.contribution)
        total = sum(abs(own.contribution) for own in part.features)
        for token in part.tokens:
            before = places.get((token.start, token.end), replace(token, weight=0.0))
            places[token.start, token.end] = replace(before, weight=before.weight + total * token.weight)
    whole = sum(abs(token.weight) for token in places.values()) or 1.0
    tokens = [replace(places[place], weight=places[place].weight / whole) for place in sorted(places)]
    score, bias = sum(part.score for part in parts), sum(part.bias or 0.0 for part in parts)
    return Explanation(label, score, tokens, bias, sorted(sums.values(), key=lambda own: own.feature))
