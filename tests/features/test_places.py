"""Places of terms: as many as the features count, for every way of making terms, and where the terms are."""

from __future__ import annotations

import pytest

from longtail.features.places import places_of_terms
from longtail.features.text import TextFeatures

TEXTS = [
    "The Committees  met\tin  committee rooms; İstanbul was the first, (e-mail)\n\n the LAST.",
    "Committee of the last e-mail: met in rooms, in İstanbul, in rooms",
    "a b, of the committees' rooms \ud800 ß",
]
WAYS = {
    "words": {},
    "pairs": {"ngram_range": (1, 2)},
    "stems": {"stem": "english", "ngram_range": (1, 2)},
    "stop words": {"stop_words": "english", "ngram_range": (2, 3)},
    "capitals": {"lowercase": False},
    "hashes": {"hashing": 8},
    "hashes and pairs": {"hashing": 2**12, "ngram_range": (1, 2)},
    "characters": {"analyzer": "char", "ngram_range": (2, 4)},
    "characters in words": {"analyzer": "char_wb", "ngram_range": (3, 5)},
    "characters beside words": {"char_ngrams": (2, 3), "bias": 1.0},
    "hashed characters beside words": {"char_ngrams": (2, 3), "hashing": 2**12},
}


@pytest.mark.parametrize("way", WAYS)
def test_there_are_as_many_places_as_the_features_count(way):
    beside = "char_ngrams" in WAYS[way]  # which needs rows of length 1, so that counts are no longer seen
    counting = {"min_df": 1, "max_df": 1.0, "idf": False, "norm": "l2" if beside else None, "sublinear_tf": False}
    features = TextFeatures(**counting, **WAYS[way]).fit(TEXTS)
    for text, row in zip(TEXTS, features.transform(TEXTS), strict=True):
        counted = dict(zip(row.indices.tolist(), row.data.tolist(), strict=True))
        if features.bias:
            del counted[features.n_features_ - 1]
        found = places_of_terms(text, features)
        assert found.keys() == counted.keys()
        if not beside:
            assert {column: len(places) for column, (_, places) in found.items()} == counted
        names = features.get_feature_names_out()
        if features.hashing is None:
            assert all(name == names[column] for column, (name, _) in found.items())
        assert all(0 <= start < end <= len(text) for _, places in found.values() for start, end in places)


def test_a_term_is_found_in_the_form_that_the_text_has():
    features = TextFeatures(min_df=1, max_df=1.0, stem="english", stop_words="english", ngram_range=(1, 2)).fit(TEXTS)
    shown = {name: [TEXTS[0][a:b] for a, b in places] for name, places in places_of_terms(TEXTS[0], features).values()}
    assert shown["committe"] == ["Committees", "committee"]
    assert shown["met committe"] == ["met\tin  committee"]


def test_terms_with_the_same_hash_are_named_together():
    features = TextFeatures(min_df=1, max_df=1.0, hashing=1).fit(TEXTS)
    ((name, places),) = places_of_terms(TEXTS[1], features).values()
    assert name.startswith("committee / of / the / last / e-mail")
    assert len(places) == 13
