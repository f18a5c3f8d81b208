from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.feature_extraction.text import TfidfVectorizer

from longtail.core import codec, store
from longtail.errors import DataError, NotFittedError, ParameterError
from longtail.features import TextFeatures, counting
from longtail.features import text as module
from longtail.features.counting import SCIKIT_LEARN_PATTERN

WORDS = [*["alpha", "beta", "gamma", "delta", "epsilon", "zeta"], "e-mail", "naïve", "Übung", "x", "42", "a_b", "Alpha"]


def random_texts(n: int = 80, seed: int = 0) -> list[str]:
    rng = np.random.default_rng(seed)
    chances = np.arange(1, len(WORDS) + 1) ** -1.0
    lengths = rng.integers(0, 15, n)  # some texts are empty
    return [" ".join(rng.choice(WORDS, size=length, p=chances / chances.sum())) for length in lengths]


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CHUNK", 7)


@pytest.mark.parametrize(
    ("many_texts", "in_threads"), [(1, 1), (1, 1000), (1000, 1000)], ids=["in threads", "compiled", "plain"]
)
@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"ngram_range": (1, 2), "min_df": 2},
        {"ngram_range": (2, 3), "min_df": 1, "max_df": 1.0, "sublinear_tf": False},
        {"min_df": 0.1, "max_df": 40, "norm": "l1"},
        {"norm": None, "lowercase": False, "min_df": 1},
        {"token_pattern": r"(?u)\b\w\w+\b", "max_features": 2},
        {"stop_words": ["alpha", "x"], "ngram_range": (1, 2), "min_df": 1},
        {"analyzer": "char", "ngram_range": (1, 3), "min_df": 2, "token_pattern": SCIKIT_LEARN_PATTERN},
        {"analyzer": "char_wb", "ngram_range": (2, 6), "max_features": 40, "token_pattern": SCIKIT_LEARN_PATTERN},
    ],
)
def test_equals_scikit_learns_vectorizer(
    parameters: dict[str, Any], many_texts: int, in_threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counting, "MANY_TEXTS", many_texts)
    monkeypatch.setattr(counting, "_IN_THREADS", in_threads)
    texts, unseen = random_texts(), [*random_texts(20, seed=1), "nothing known here", ""]
    ours = TextFeatures(**parameters)
    shared = inspect.signature(TfidfVectorizer).parameters
    theirs = TfidfVectorizer(**{k: v for k, v in ours.get_params().items() if k in shared}, dtype=np.float32)
    fitted, expected = ours.fit_transform(texts), theirs.fit_transform(texts)
    assert list(ours.get_feature_names_out()) == list(theirs.get_feature_names_out())
    np.testing.assert_array_equal(fitted.toarray(), expected.toarray())
    np.testing.assert_array_equal(ours.idf_, theirs.idf_)
    np.testing.assert_array_equal(ours.transform(unseen).toarray(), theirs.transform(unseen).toarray())


def test_features_do_not_depend_on_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counting, "MANY_TEXTS", 1)
    monkeypatch.setattr(counting, "_IN_THREADS", 1)
    texts = random_texts()
    one, three = (TextFeatures(ngram_range=(1, 2), n_jobs=n_jobs) for n_jobs in (1, 3))
    X, Z = one.fit_transform(texts), three.fit_transform(texts)
    assert list(one.vocabulary_.items()) == list(three.vocabulary_.items())
    for name in ("data", "indices", "indptr"):
        assert getattr(X, name).tobytes() == getattr(Z, name).tobytes()


@pytest.mark.parametrize("bias", [0.0, 1.0])
def test_fit_then_transform_is_fit_transform_in_one_shape(bias: float) -> None:
    texts = random_texts()
    together = TextFeatures(bias=bias).fit_transform(texts)
    apart = TextFeatures(bias=bias).fit(iter(texts)).transform(iter(texts))  # one pass each: an iterator will do
    np.testing.assert_array_equal(together.toarray(), apart.toarray())
    for X in (together, apart):
        assert isinstance(X, sparse.csr_matrix)
        assert X.has_canonical_format
        assert sparse.csr_matrix((X.data, X.indices, X.indptr), shape=X.shape).has_canonical_format
        assert (X.dtype, X.indices.dtype, X.indptr.dtype) == (np.float32, np.int32, np.int32)


def test_bias_is_a_constant_last_column() -> None:
    texts = random_texts()
    plain, with_bias = TextFeatures().fit_transform(texts), TextFeatures(bias=0.5).fit_transform(texts)
    np.testing.assert_array_equal(with_bias.toarray()[:, :-1], plain.toarray())
    assert (with_bias.toarray()[:, -1] == 0.5).all()
    assert TextFeatures(bias=0.5).fit(texts).get_feature_names_out()[-1] == "(bias)"


def test_chunks_are_the_same_rows() -> None:
    texts = random_texts()
    features = TextFeatures().fit(texts)
    blocks = list(features.transform_chunks(texts, chunk=30))
    assert [block.shape[0] for block in blocks] == [30, 30, 20]
    np.testing.assert_array_equal(sparse.vstack(blocks).toarray(), features.transform(texts).toarray())
    assert list(features.transform_chunks([])) == []
    assert features.transform([]).shape == (0, features.n_features_)


def test_texts_are_read_as_they_are_needed() -> None:
    features, read = TextFeatures().fit(random_texts()), []

    def endless() -> Any:
        while True:
            read.append(1)
            yield "alpha beta"

    blocks = features.transform_chunks(endless(), chunk=10)
    next(blocks)
    next(blocks)
    assert len(read) == 20


def test_state_travels_without_the_texts(tmp_path: Any) -> None:
    texts = random_texts()
    features = TextFeatures(ngram_range=(1, 2), bias=1.0).fit(texts)
    header = {"kind": "model", "features": codec.encode(features)}
    store.write(tmp_path / "saved", header, features._get_state())
    manifest, state = store.read(tmp_path / "saved", "model")
    loaded = codec.decode(manifest["features"])
    loaded._set_state(state)
    np.testing.assert_array_equal(loaded.transform(texts).toarray(), features.transform(texts).toarray())
    assert list(loaded.get_feature_names_out()) == list(features.get_feature_names_out())


def test_clone_forgets_what_was_learned() -> None:
    features = TextFeatures(min_df=2, bias=1.0).fit(random_texts())
    copy = clone(features)
    assert copy.get_params() == features.get_params()
    with pytest.raises(NotFittedError, match="not fitted"):
        copy.transform(["alpha"])


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["a", "b", None], "text 2 is NoneType"),
        (["word"] * 9 + [float("nan")], r"text 9 is float \('nan'\)"),
        ([b"bytes"], "text 0 is bytes"),
        ("one string", "put it into a list"),
        (["rare", "words", "only"], "none of the 3 distinct terms in 3 texts occurs in at least 2 and at most 1.5"),
        ([], "in 0 texts"),
    ],
)
def test_refuses_what_is_not_a_text(texts: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        TextFeatures().fit(texts)
    with pytest.raises(DataError, match=message):
        TextFeatures().fit_transform(texts)


@pytest.mark.parametrize(
    "parameters",
    [
        {"ngram_range": (2, 1)},
        {"ngram_range": (1.0, 2)},
        {"ngram_range": (1, 10**12)},
        {"char_ngrams": (1, True)},
        {"ngram_range": 2},
        {"min_df": 0},
        {"max_df": 1.5},
        {"norm": "l3"},
        {"max_features": 0},
        {"bias": -1.0},
        {"n_jobs": 0},
        {"token_pattern": "("},
        {"token_pattern": "(a)(b)"},
    ],
)
def test_refuses_parameters(parameters: dict[str, Any]) -> None:
    with pytest.raises(ParameterError, match=next(iter(parameters))):
        TextFeatures(**parameters).fit(random_texts())
    with pytest.raises(ParameterError, match="chunk"):
        TextFeatures().fit(random_texts()).transform_chunks(["a"], chunk=0)
