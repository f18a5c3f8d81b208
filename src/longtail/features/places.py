"""Where the terms of TF-IDF features are in a text: contributions of features back to characters."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import replace

from longtail.core.explanation import Explanation, FeatureWeight, TokenWeight
from longtail.features.text import BIAS_NAME, TextFeatures

Place = tuple[int, int]


def placed(found: Explanation, text: str, features: TextFeatures) -> Explanation:
    """Return an explanation over features with their terms as names and, as tokens, their places in the text.

    A term that occurs several times shares its contribution equally between its places. A run of words, such as a pair,
    reaches from its first word to its last.

    Parameters
    ----------
    found : Explanation
        Explanation over the columns of `features`.
    text : str
        The text that they were computed from.
    features : TextFeatures
        Fitted features.

    Returns
    -------
    Explanation
    """
    places = places_of_terms(text, features)
    # The vocabulary is only turned round where a column has no place, such as the bias.
    missing = [own.feature for own in found.features if own.feature not in places]
    names = dict.fromkeys(missing, BIAS_NAME)
    if any(column < len(features.vocabulary_) for column in missing):
        wanted = set(missing)
        names |= {column: term for term, column in features.vocabulary_.items() if column in wanted}
    total = sum(abs(own.contribution) for own in found.features if own.feature in places) or 1.0
    named, tokens = [], []
    for own in found.features:
        here = places.get(own.feature)
        if here is None:
            named.append(FeatureWeight(own.feature, names[own.feature], own.value, own.contribution))
            continue
        term, spans = here
        named.append(FeatureWeight(own.feature, term, own.value, own.contribution))
        share = own.contribution / total / len(spans)
        tokens += [TokenWeight(text[start:end], start, end, share) for start, end in spans]
    return replace(found, features=named, tokens=sorted(tokens, key=lambda token: (token.start, token.end)))


def places_of_terms(text: str, features: TextFeatures) -> dict[int, tuple[str, list[Place]]]:
    """Return, per column of `features` that the text has, its term and the places of that term."""
    lowered, back = _lowered(text) if features.lowercase else (text, None)
    pattern = re.compile(features.token_pattern)
    spans = [match.span(pattern.groups) for match in pattern.finditer(lowered)]
    words = [lowered[start:end] for start, end in spans]
    found: dict[int, tuple[str, list[Place]]] = {}
    at: defaultdict[int, list[Place]] = defaultdict(list)
    shortest, longest = features.ngram_range
    for n in range(shortest, longest + 1):
        for i in range(len(words) - n + 1):
            term = words[i] if n == 1 else " ".join(words[i : i + n])
            column = features.vocabulary_.get(term)
            if column is None:
                continue
            start, end = spans[i][0], spans[i + n - 1][1]
            at[column].append((start, end) if back is None else (back[start], back[end - 1] + 1))
            found[column] = (term, at[column])
    return found


def _lowered(text: str) -> tuple[str, list[int] | None]:
    """Return the text in lower case, and the original place of each character if some became two (as the dotted I)."""
    lowered = text.lower()
    if len(lowered) == len(text):
        return lowered, None
    lengths = [len(character.lower()) for character in text]
    back = [i for i, length in enumerate(lengths) for _ in range(length)]
    return lowered, back
