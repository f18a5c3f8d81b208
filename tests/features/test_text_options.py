"""Stop words, stems, hashing, fields and n-grams of characters beside words."""

from __future__ import annotations

import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS, HashingVectorizer, TfidfTransformer, TfidfVectorizer
from sklearn.preprocessing import normalize
from sklearn.utils import murmurhash3_32

import longtail
from longtail.core import codec, store
from longtail.data import read_dataset
from longtail.errors import DataError, MissingExtraError, NotFittedError, ParameterError
from longtail.features import TextFeatures, TextPipeline, counting, hashing

PATTERN = counting.DEFAULT_PATTERN
TEXTS = [
    "The whales were running and the ships ran", "A ship and its whale", "Shipping of naïve Übungen",
    "RUNNING shoes, shipped by the ship-owners", "", "  \t\n ", "42 running_shoes x", "日本語 テキスト 日本語",
    "😀 ship 😀😀",     "\ud800 lone half of a pair", "the and of",
] * 3  # fmt: skip


def plain(**parameters: Any) -> TextFeatures:
    return TextFeatures(min_df=1, max_df=1.0, **parameters)


@pytest.fixture(params=[1, 1000], ids=["compiled", "plain"])
def path_of_counting(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counting, "MANY_TEXTS", request.param)
    monkeypatch.setattr(hashing, "MANY_TERMS", request.param)


@pytest.mark.usefixtures("path_of_counting")
def test_english_stop_words_are_those_of_scikit_learn() -> None:
    theirs = TfidfVectorizer(
        stop_words="english", sublinear_tf=True, token_pattern=PATTERN, ngram_range=(1, 2), dtype=np.float32
    )
    ours = plain(stop_words="english", ngram_range=(1, 2))
    expected = theirs.fit_transform(TEXTS)
    np.testing.assert_array_equal(ours.fit_transform(TEXTS).toarray(), expected.toarray())
    assert list(ours.get_feature_names_out()) == list(theirs.get_feature_names_out())
    assert ours.stop_words_ == sorted(ENGLISH_STOP_WORDS)


def test_other_languages_have_stop_words_and_a_list_is_read_in_lower_case() -> None:
    finnish = plain(stop_words="finnish").fit(["tämä on laiva ja se on valas"] * 2)
    assert set(finnish.vocabulary_) == {"laiva", "valas"}
    assert set(plain(stop_words=["The", "AND"]).fit(["the ship and sea"]).vocabulary_) == {"ship", "sea"}


@pytest.mark.usefixtures("path_of_counting")
def test_stems_are_those_of_the_snowball_stemmer() -> None:
    Stemmer = pytest.importorskip("Stemmer", reason="stemming needs PyStemmer: pip install 'longtail[stemming]'")
    stem = Stemmer.Stemmer("english").stemWord
    words = TfidfVectorizer(token_pattern=PATTERN).build_analyzer()

    def analyzer(text: str) -> list[str]:
        kept = [stem(word) for word in words(text) if word not in ENGLISH_STOP_WORDS]
        return [*kept, *(f"{a} {b}" for a, b in pairwise(kept))]

    theirs = TfidfVectorizer(analyzer=analyzer, sublinear_tf=True, dtype=np.float32)
    ours = plain(stem="english", stop_words="english", ngram_range=(1, 2))
    np.testing.assert_array_equal(ours.fit_transform(TEXTS).toarray(), theirs.fit_transform(TEXTS).toarray())
    assert {"run", "ship", "whale"} <= set(ours.vocabulary_)


@pytest.mark.usefixtures("path_of_counting")
def test_hashes_are_the_columns_of_the_hashing_vectorizer_and_need_no_fit() -> None:
    theirs = HashingVectorizer(
        n_features=50, alternate_sign=False, token_pattern=PATTERN, ngram_range=(1, 2), dtype=np.float32
    )
    ours = TextFeatures(hashing=50, idf=False, sublinear_tf=False, ngram_range=(1, 2))
    np.testing.assert_allclose(ours.transform(TEXTS).toarray(), theirs.transform(TEXTS).toarray(), rtol=1e-6)
    assert ours.n_features_ == 50
    assert ours.get_feature_names_out()[-1] == "#49"
    np.testing.assert_array_equal(ours.fit_transform(TEXTS).toarray(), ours.transform(iter(TEXTS)).toarray())
    with pytest.raises(NotFittedError):
        TextFeatures(hashing=50).transform(TEXTS)


@pytest.mark.usefixtures("path_of_counting")
def test_hashed_columns_get_weights_and_those_too_rare_are_removed() -> None:
    counts = HashingVectorizer(n_features=60, alternate_sign=False, norm=None, token_pattern=PATTERN, dtype=np.float32)
    tfidf = TfidfTransformer(sublinear_tf=True).fit_transform(counts.transform(TEXTS)).toarray()
    df = (counts.transform(TEXTS).toarray() > 0).sum(0)
    every, some = plain(hashing=60), TextFeatures(min_df=4, max_df=1.0, hashing=60, norm=None)
    np.testing.assert_allclose(every.fit_transform(TEXTS).toarray(), tfidf[:, df > 0], rtol=1e-5)
    X = some.fit_transform(TEXTS)
    assert list(some.get_feature_names_out()) == [f"#{i}" for i in np.flatnonzero(df >= 4)]
    np.testing.assert_array_equal(some.transform(TEXTS).toarray(), X.toarray())


def test_hashes_of_plain_and_compiled_code_are_those_of_scikit_learn(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    letters = np.array(list("abz0-é日😀"))
    terms = ["".join(rng.choice(letters, size=size)) for size in rng.integers(0, 12, 500)]
    expected = np.abs(np.array([murmurhash3_32(term, 0) for term in terms], np.int64)) % 1009
    for many in (1, 10_000):
        monkeypatch.setattr(hashing, "MANY_TERMS", many)
        np.testing.assert_array_equal(hashing.buckets_of(terms, 1009), expected)


def test_characters_beside_words_are_two_parts_of_a_unit_row() -> None:
    words, characters = plain(), plain(analyzer="char_wb", ngram_range=(3, 4))
    both = plain(char_ngrams=(3, 4), char_weight=0.5)
    X = both.fit_transform(TEXTS)
    left, right = words.fit_transform(TEXTS), characters.fit_transform(TEXTS)
    parts = np.hstack([left.toarray(), 0.5 * right.toarray()])
    np.testing.assert_allclose(X.toarray(), normalize(parts), atol=1e-7)
    names = [*words.get_feature_names_out(), *(f"char:{name}" for name in characters.get_feature_names_out())]
    assert list(both.get_feature_names_out()) == names
    assert X.has_canonical_format
    assert (X.indices.dtype, X.indptr.dtype, X.dtype) == (np.int32, np.int32, np.float32)
    np.testing.assert_array_equal(both.transform(TEXTS).toarray(), X.toarray())
    only_characters = both.transform(["shipq"])  # an unknown word with known parts
    assert only_characters[:, : left.shape[1]].nnz == 0
    assert np.linalg.norm(only_characters.data) == pytest.approx(1)


RECORDS = [
    {"Title of": "Whales running", "abstract": "the whales run from ships", "labels": ["a"]},
    {"Title of": "Ships", "abstract": "a ship is shipping the whales", "labels": ["b"]},
]


def separate_texts(tmp_path: Path) -> list[str]:
    import json

    file = tmp_path / "records.jsonl"
    file.write_text("\n".join(json.dumps(record) for record in RECORDS))
    return list(read_dataset(file, text=["Title of", "abstract"], fields="separate").texts)


def test_fields_have_weights_stop_words_and_stems(tmp_path: Path) -> None:
    texts = separate_texts(tmp_path)
    weights = {"Title of": 3.0, "abstract": 1.0}
    features = plain(field_weights=weights, stop_words="english", stem="english")
    X = features.fit_transform(texts).toarray()
    names = list(features.get_feature_names_out())
    assert set(names) == {
        "title-of_whale",
        "title-of_run",
        "title-of_ship",
        "abstract_whale",
        "abstract_run",
        "abstract_ship",
    }
    same = plain(stop_words="english", stem="english", norm=None, field_weights=dict.fromkeys(weights, 1.0))
    factors = np.array([3.0 if name.startswith("title-of_") else 1.0 for name in names])
    np.testing.assert_allclose(X, normalize(same.fit_transform(texts).toarray() * factors), rtol=1e-6)


def test_characters_are_those_of_the_words_without_their_field(tmp_path: Path) -> None:
    joined = [f"{record['Title of']}\n{record['abstract']}" for record in RECORDS]
    both = plain(field_weights={"Title of": 1.0, "abstract": 1.0}, char_ngrams=(3, 4)).fit(separate_texts(tmp_path))
    expected = plain(analyzer="char_wb", ngram_range=(3, 4)).fit(joined)
    assert both.tables_[1].vocabulary == expected.vocabulary_


OPTIONS: list[dict[str, Any]] = [
    {"stop_words": "english", "stem": "english"},
    {"hashing": 64, "ngram_range": (1, 2)},
    {"hashing": 64, "idf": False, "stop_words": ["ship"]},
    {"char_ngrams": (2, 4), "field_weights": {"running": 2.0}, "bias": 1.0},
    {"analyzer": "char_wb", "ngram_range": (2, 3), "hashing": 100},
]


@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: ", ".join(options))
def test_one_text_is_as_many_and_a_saved_state_as_the_fitted_one(options: dict[str, Any], tmp_path: Path) -> None:
    features = plain(**options).fit(TEXTS)
    X = features.transform(TEXTS).toarray()
    np.testing.assert_array_equal(features.fit_transform(TEXTS).toarray(), X)
    np.testing.assert_array_equal(np.vstack([features.transform([text]).toarray() for text in TEXTS]), X)
    store.write(tmp_path / "saved", {"kind": "model", "features": codec.encode(features)}, features._get_state())
    manifest, state = store.read(tmp_path / "saved", "model")
    loaded = codec.decode(manifest["features"])
    loaded._set_state(state)
    np.testing.assert_array_equal(loaded.transform(TEXTS).toarray(), X)
    assert list(loaded.get_feature_names_out()) == list(features.get_feature_names_out())
    assert loaded.n_features_ == X.shape[1]


def test_a_loaded_model_keeps_the_stop_words_that_it_was_trained_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = TextPipeline(model=longtail.Popularity(), features=plain(stop_words="english"))
    model.fit(TEXTS, [[0]] * len(TEXTS)).save(tmp_path / "model")
    monkeypatch.setattr("longtail.features.filtering._of_language", lambda language: ["another", "list"])
    loaded = longtail.load_model(tmp_path / "model")
    assert loaded.features_.transform(["the and of"]).nnz == 0
    assert loaded.features_.stop_words_ == model.features_.stop_words_


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"stem": "klingon"}, 'stem: unknown language "klingon"; known: arabic, '),
        ({"stem": "englisch"}, 'did you mean "english"'),
        ({"stem": 3}, "stem is 3, but must be a language"),
        ({"stop_words": "klingon"}, 'stop_words: unknown language "klingon"'),
        ({"stop_words": [1, 2]}, r"stop_words is \[1, 2\], but must be a language"),
        ({"analyzer": "letters"}, "analyzer is 'letters'"),
        ({"analyzer": "char", "stem": "english"}, "stem is for words, but analyzer is 'char'"),
        ({"char_ngrams": (4, 3)}, r"char_ngrams is \(4, 3\)"),
        ({"char_ngrams": (3, 4), "norm": "l1"}, "char_ngrams needs norm='l2'"),
        ({"char_weight": 0.0}, "char_weight is 0.0"),
        ({"hashing": 0}, "hashing is 0"),
        ({"hashing": 2**31}, "at most 2147483647 columns"),
        ({"hashing": 8, "field_weights": {"title": 2.0}}, "set one of the two"),
        ({"field_weights": {}}, "weights by field"),
        ({"field_weights": {"title": -1.0}}, "field_weights of 'title' is -1.0"),
        ({"field_weights": {"title": 1e30}}, "field_weights of 'title' is 1e\\+30, but must be at most 1,000,000"),
        ({"char_weight": 1e30}, "char_weight is 1e\\+30, but must be at most"),
        ({"idf": "yes"}, "idf is 'yes'"),
    ],
)
def test_refuses(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        TextFeatures(**parameters).fit(TEXTS)


def test_says_when_stop_words_leave_nothing() -> None:
    with pytest.raises(DataError, match="none of the 0 distinct terms in 3 texts, stop words not counted, occurs"):
        plain(stop_words="english").fit(["the and", "of", "the"])


@pytest.mark.parametrize(
    ("package", "parameters"),
    [("Stemmer", {"stem": "english"}), ("stop_words", {"stop_words": "finnish"})],
)
def test_says_which_extra_is_missing(package: str, parameters: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtraError, match=r"pip install 'longtail\[stemming\]'"):
        plain(**parameters).fit(TEXTS)


def test_a_loaded_model_needs_neither_scikit_learn_nor_a_list_of_stop_words(tmp_path: Path) -> None:
    model = TextPipeline(model=longtail.Popularity(), features=plain(stop_words="finnish"))
    model.fit(["laiva ja meri", "on meri"], [[0], [1]]).save(tmp_path / "model")
    program = (
        "import sys; sys.modules['stop_words'] = None; import longtail; "
        "m = longtail.load_model(sys.argv[1]); assert m.features_.transform(['ja on']).nnz == 0; "
        "assert m.features_.transform(['laiva']).nnz == 1; assert 'sklearn' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program, str(tmp_path / "model")], check=True)
