"""Where the terms of TF-IDF features are in a text: contributions of features back to characters."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from longtail.core.explanation import Explanation, FeatureWeight, TokenWeight
from longtail.features.characters import encodable
from longtail.features.counting import TermCounter
from longtail.features.text import BIAS_NAME, TextFeatures

Place = tuple[int, int]
Placed = Iterator[tuple[str, Place]]


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
    names = _names([own.feature for own in found.features if own.feature not in places], features)
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
    """Return, per column of `features` that the text has, its terms and their places.

    A column has several terms where they have the same hash. Characters of texts with weighted fields have no places:
    they are counted without the names of the fields.
    """
    names: dict[int, dict[str, None]] = {}
    places: dict[int, list[Place]] = {}
    before = 0
    for number, table in enumerate(features.tables_):
        here = list(_cut(text, table.counter)) if not (number and features.field_weights) else []
        columns = table.columns_of([term for term, _ in here]).tolist()
        for (term, place), column in zip(here, columns, strict=True):
            if column >= 0:
                names.setdefault(before + column, {})[f"char:{term}" if number else term] = None
                places.setdefault(before + column, []).append(place)
        before += table.n_columns
    return {column: (" / ".join(names[column]), found) for column, found in places.items()}


def _names(columns: Iterable[int], features: TextFeatures) -> dict[int, str]:
    """Return the names of columns that have no place: the bias, vectors of an encoder."""
    found = {features.n_features_ - 1: BIAS_NAME} if features.bias > 0 else {}
    missing = [column for column in columns if column not in found]
    every: Sequence[str] = features.get_feature_names_out().tolist() if missing else []
    return found | {column: every[column] for column in missing}


def _cut(text: str, counter: TermCounter) -> Placed:
    """Yield the terms of a text as `counter` makes them, each with its place."""
    text = encodable(text)  # as long as before
    lowered, back = _lowered(text) if counter.lowercase else (text, None)
    cut = {"word": _words, "char": _characters, "char_wb": _characters_of_words}[counter.analyzer]
    for term, (start, end) in cut(lowered, counter):
        yield term, (start, end) if back is None else (back[start], back[end - 1] + 1)


def _words(text: str, counter: TermCounter) -> Placed:
    pattern = re.compile(counter.pattern)
    spans = [match.span(pattern.groups) for match in pattern.finditer(text)]
    words: list[str] = [text[start:end] for start, end in spans]
    if counter.keep is not None:
        kept = [own for own in zip(counter.keep(words), spans, strict=True) if own[0] is not None]
        words, spans = [str(word) for word, _ in kept], [span for _, span in kept]
    shortest, longest = counter.ngram_range
    for n in range(shortest, longest + 1):
        for i in range(len(words) - n + 1):
            yield words[i] if n == 1 else " ".join(words[i : i + n]), (spans[i][0], spans[i + n - 1][1])


def _characters(text: str, counter: TermCounter) -> Placed:
    """Yield runs of characters, in which several spaces are one."""
    kept = [i for i, own in enumerate(text) if not (own.isspace() and i + 1 < len(text) and text[i + 1].isspace())]
    alone = [i == 0 or not text[i - 1].isspace() for i in kept]
    short = "".join(" " if text[i].isspace() and not first else text[i] for i, first in zip(kept, alone, strict=True))
    shortest, longest = counter.ngram_range
    for n in range(shortest, longest + 1):
        for i in range(len(short) - n + 1):
            yield short[i : i + n], (kept[i], kept[i + n - 1] + 1)


def _characters_of_words(text: str, counter: TermCounter) -> Placed:
    """Yield runs of characters within words, which have a space on each side; the spaces are no part of the place."""
    shortest, longest = counter.ngram_range
    for match in re.finditer(r"\S+", text):
        padded, (start, end) = f" {match[0]} ", match.span()
        if len(padded) <= shortest:
            yield padded, (start, end)
            continue
        for n in range(shortest, longest + 1):
            for i in range(len(padded) - n + 1):
                yield padded[i : i + n], (max(start + i - 1, start), min(start + i - 1 + n, end))


def _lowered(text: str) -> tuple[str, list[int] | None]:
    """Return the text in lower case, and the original place of each character if some became two (as the dotted I)."""
    lowered = text.lower()
    if len(lowered) == len(text):
        return lowered, None
    lengths = [len(character.lower()) for character in text]
    back = [i for i, length in enumerate(lengths) for _ in range(length)]
    return lowered, back
