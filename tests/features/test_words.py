"""The compiled tokeniser against Python's `re`, on characters that are hard to get right."""

from __future__ import annotations

import random
import re

import numpy as np
import pytest

from longtail.features import words
from longtail.features.counting import COMPILED, DEFAULT_PATTERN, TermCounter

# Hyphens and underscores at every place; two, three and four bytes; digits that are no ASCII; a lone surrogate.
CHARACTERS = "aab1__--- .\n\0äß०²İΣ字\ud800𝒜𐄀"


def random_texts(rng: random.Random) -> list[str]:
    return ["".join(rng.choices(CHARACTERS, k=rng.randint(0, 25))) for _ in range(rng.randint(0, 5))]


@pytest.mark.parametrize("pattern", COMPILED)
@pytest.mark.parametrize("lowercase", [False, True])
@pytest.mark.parametrize("ngram_range", [(1, 1), (1, 3), (2, 2), (2, 3)])
def test_words_and_ngrams_are_those_of_re(pattern, lowercase, ngram_range):
    rng = random.Random(0)
    counter = TermCounter(pattern, lowercase, ngram_range, 1)
    for _ in range(200):
        texts = random_texts(rng)
        fast, plain = counter._compiled(texts), counter._plain(texts)
        assert list(fast.names) == list(plain.names)
        for row in range(len(texts)):
            counted = np.zeros(len(plain.names))
            at = slice(fast.indptr[row], fast.indptr[row + 1])
            counted[fast.indices[at]] = fast.data[at]  # each term once
            at = slice(plain.indptr[row], plain.indptr[row + 1])
            np.testing.assert_array_equal(counted, np.bincount(plain.indices[at], minlength=len(plain.names)))


def test_tables_grow():
    rng = random.Random(1)
    many = ["".join(rng.choices("abcdefgh", k=6)) for _ in range(30_000)]
    texts = [" ".join(many[i : i + 300]) for i in range(0, len(many), 300)] + [" ".join(many)]
    split = words.split_texts(texts, DEFAULT_PATTERN)
    assert len(split.words) > words._FIRST_WORDS
    assert split.words == list(dict.fromkeys(many))
    assert [split.words[i] for i in split.ids] == [word for text in texts for word in text.split()]


def test_every_character_is_classified_as_re_does():
    everything = "".join(map(chr, range(0x110000)))
    assert words.character_classes().nonzero()[0].tolist() == [ord(c) for c in re.findall(r"\w", everything)]
