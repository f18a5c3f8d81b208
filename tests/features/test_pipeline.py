from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import normalize

import longtail
from longtail.core import registry
from longtail.core.estimator import Estimator, Prepared
from longtail.core.popularity import Popularity
from longtail.core.predictions import Predictions
from longtail.core.run import Run
from longtail.core.state import State
from longtail.errors import DataError, NotFittedError, ParameterError
from longtail.features import TextFeatures, TextPipeline, UnitRows
from longtail.features import text as text_module
from longtail.features.scaling import unit_rows

TEXTS = [f"{word} {word} common {i % 3}" for i, word in enumerate(["cat", "dog", "fish", "bird"] * 10)]
Y = [[i % 4] for i in range(40)]
NAMES = ["cat", "dog", "fish", "bird"]


class Centroid(Estimator):
    """A feature model small enough to check by eye: a label scores the product with the sum of its points."""

    def __init__(self, *, power: float = 1.0) -> None:
        self.power = power

    def _fit(self, prepared: Prepared, run: Run) -> None:
        self.centres_ = np.asarray((prepared.Y.T @ prepared.X).todense(), dtype=np.float32) ** np.float32(self.power)

    def _predict(self, X: Any, k: int) -> Predictions:
        return Predictions.from_dense(X @ self.centres_.T, k)

    def _get_state(self) -> State:
        return State(arrays={"centres": self.centres_})

    def _set_state(self, state: State) -> None:
        self.centres_ = state.arrays["centres"]


@pytest.fixture(autouse=True)
def centroid_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    known = dict(registry._ESTIMATORS, centroid=f"{Centroid.__module__}:{Centroid.__qualname__}")
    monkeypatch.setattr(registry, "_ESTIMATORS", known)
    monkeypatch.setattr(registry, "_import", lambda target: Centroid if "Centroid" in target else _IMPORT(target))


_IMPORT = registry._import  # the tests' own module cannot be imported by name


def fitted(**parameters: Any) -> TextPipeline:
    pipeline = TextPipeline(model=Centroid(), features=TextFeatures(min_df=1), **parameters)
    return pipeline.fit(TEXTS, Y, label_names=NAMES)


def test_learns_from_texts() -> None:
    predictions = fitted().predict(["a dog!", "Fish and fish", "nothing known"], k=1)
    assert predictions.labels[:2, 0].tolist() == [1, 2]


def test_predicts_in_chunks_what_it_predicts_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline = fitted()
    at_once = pipeline.predict(TEXTS, k=3)
    calls = []
    predict = pipeline.model_.predict
    monkeypatch.setattr(pipeline.model_, "predict", lambda X, k: calls.append(X.shape[0]) or predict(X, k=k))
    monkeypatch.setattr(text_module.TextFeatures.transform_chunks, "__defaults__", (16,))
    in_chunks = pipeline.predict(TEXTS, k=3)
    assert calls == [16, 16, 8]
    np.testing.assert_array_equal(in_chunks.labels, at_once.labels)
    np.testing.assert_array_equal(in_chunks.scores, at_once.scores)


def test_no_texts_no_predictions() -> None:
    assert fitted().predict([], k=2).labels.shape == (0, 2)


def test_saved_and_loaded_as_one_directory(tmp_path: Path) -> None:
    pipeline = fitted()
    pipeline.save(tmp_path / "model")
    assert sorted(file.suffix for file in (tmp_path / "model").iterdir()) == [".json", ".safetensors"]
    loaded = longtail.load_model(tmp_path / "model")
    expected, found = pipeline.predict(TEXTS, k=4), loaded.predict(TEXTS, k=4)
    np.testing.assert_array_equal(found.labels, expected.labels)
    np.testing.assert_array_equal(found.scores, expected.scores)
    assert loaded.label_names_ == NAMES
    assert loaded.fingerprint_ == pipeline.fingerprint_
    assert loaded.get_params()["features__min_df"] == 1


def test_what_was_fitted_is_saved_not_what_was_set_afterwards(tmp_path: Path) -> None:
    pipeline = fitted()
    before = pipeline.predict(TEXTS, k=2)
    pipeline.set_params(model=Popularity(), features__ngram_range=(1, 2)).save(tmp_path / "model")
    loaded = longtail.load_model(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict(TEXTS, k=2).scores, before.scores)
    assert loaded.model_.label_names_ == NAMES


def test_parts_are_cloned_and_get_the_names() -> None:
    model, features = Centroid(), TextFeatures(min_df=1)
    pipeline = TextPipeline(model=model, features=features).fit(TEXTS, Y, label_names=NAMES)
    assert not hasattr(model, "n_labels_")
    assert not hasattr(features, "vocabulary_")
    assert pipeline.model_.label_names_ == NAMES
    assert pipeline.model_.n_features_in_ == pipeline.features_.n_features_


def test_clone_and_nested_parameters() -> None:
    pipeline = fitted().set_params(model__power=2.0, features__min_df=2)
    copy = clone(pipeline)
    assert copy.model.power == 2.0
    assert copy.features.min_df == 2
    with pytest.raises(NotFittedError, match="not fitted"):
        copy.predict(["dog"])


def first_is_right(estimator: Any, X: Any, Y: Any) -> float:
    return float(np.mean(estimator.predict(X, k=1).labels[:, 0] == np.argmax(Y, axis=1)))


def test_grid_search_over_nested_parameters() -> None:
    # A power of 0 makes all labels equal, so label 0 always wins.
    dense = np.eye(4, dtype=np.float32)[[row[0] for row in Y]]
    grid = {"model__power": [0.0, 1.0], "features__min_df": [1, 2]}
    search = GridSearchCV(
        TextPipeline(model=Centroid(), features=TextFeatures()), grid, scoring=first_is_right, cv=2, error_score="raise"
    ).fit(TEXTS, dense)
    assert search.best_params_["model__power"] == 1.0
    assert search.best_score_ == 1.0
    assert search.cv_results_["mean_test_score"].min() == 0.25


def test_text_features_in_a_scikit_learn_pipeline() -> None:
    pipeline = Pipeline([("features", TextFeatures(min_df=1)), ("model", Centroid())]).fit(TEXTS, Y)
    np.testing.assert_array_equal(pipeline.predict(TEXTS, k=2).scores, fitted().predict(TEXTS, k=2).scores)


def test_fingerprint_sees_every_word() -> None:
    def fingerprint(texts: list[str]) -> str:
        return TextPipeline(model=Popularity(), features=TextFeatures(min_df=1)).fit(texts, Y).fingerprint_

    assert fingerprint(TEXTS) == fingerprint(list(TEXTS))
    assert fingerprint(TEXTS) != fingerprint([TEXTS[0] + " more", *TEXTS[1:]])
    moved = [TEXTS[0] + TEXTS[1][:3], TEXTS[1][3:], *TEXTS[2:]]
    assert fingerprint(TEXTS) != fingerprint(moved)


def test_refuses() -> None:
    with pytest.raises(ParameterError, match="trained on features"):
        TextPipeline(model=TextPipeline()).fit(TEXTS, Y)
    with pytest.raises(ParameterError, match="TextFeatures"):
        TextPipeline(model=Centroid(), features="tfidf").fit(TEXTS, Y)
    with pytest.raises(DataError, match="text 1 is int"):
        TextPipeline(model=Centroid()).fit(["a", 1], [[0], [0]])
    with pytest.raises(DataError, match="text 1 is NoneType"):
        fitted().predict(["a", None], k=1)
    with pytest.raises(DataError, match="sequence of texts"):
        fitted().predict("one string", k=1)


def test_a_generator_is_as_good_as_a_list_and_nothing_is_said() -> None:
    model = TextPipeline(model=Popularity()).fit((text for text in TEXTS), Y)
    assert len(model.predict((text for text in TEXTS[:3]), k=2)) == 3
    with pytest.raises(DataError, match="needs texts"):
        model.predict(None, k=2)
    with pytest.raises(DataError, match="needs texts"):
        TextPipeline(model=Popularity()).fit(None, Y)


def test_unit_rows_are_given_to_the_model_in_training_and_in_prediction(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X = sparse.random(40, 12, 0.4, "csr", np.float32, rng)
    X.data *= np.repeat(rng.uniform(0.1, 1000, 40), np.diff(X.indptr)).astype(np.float32)
    scaled = normalize(X)
    expected = Centroid().fit(scaled, Y).predict(scaled, k=3)
    model = UnitRows(model=Centroid()).fit(X, Y, label_names=NAMES)
    for known in (model, (model.save(tmp_path / "m"), longtail.load_model(tmp_path / "m"))[1]):
        found = known.predict(X, k=3)
        np.testing.assert_array_equal(found.labels, expected.labels)
        np.testing.assert_allclose(found.scores, expected.scores, rtol=1e-5)
        assert known.label_names_ == known.model_.label_names_ == NAMES
    assert not np.allclose(Centroid().fit(X, Y).predict(X, k=3).scores, expected.scores, rtol=0.1)


def test_rows_have_length_one_whatever_their_size_and_the_callers_are_kept() -> None:
    X = sparse.csr_matrix(np.float32([[3e25, 4e25, 0], [0, 0, 0], [3e-30, 0, 4e-30], [0, -2, 0]]))
    before = X.toarray()
    np.testing.assert_allclose(unit_rows(X).toarray(), [[0.6, 0.8, 0], [0, 0, 0], [0.6, 0, 0.8], [0, -1, 0]], rtol=1e-6)
    np.testing.assert_array_equal(X.toarray(), before)
    assert unit_rows(X[:0]).shape == (0, 3)


def test_rows_too_long_for_other_models_are_scaled_first() -> None:
    X = np.float32([[1e18, 2e18], [0, 1e12], [1e12, 0]])
    with pytest.raises(DataError, match="UnitRows"):
        Centroid().fit(X, [[0], [1], [0]])
    assert UnitRows(model=Centroid()).fit(X, [[0], [1], [0]]).predict(X, k=1).labels.ravel().tolist() == [0, 1, 0]


def test_many_rows_are_scaled_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    X = sparse.random(23, 9, 0.4, "csr", np.float32, np.random.default_rng(0))
    monkeypatch.setattr("longtail.features.scaling._ROWS_AT_ONCE", 5)
    np.testing.assert_allclose(unit_rows(X).toarray(), normalize(X).toarray(), rtol=1e-6)


def test_pipelines_hand_on_what_modules_ask_of_their_model() -> None:
    X, labels = np.eye(4)[[row[0] for row in Y]], [[*row, 0] if row[0] else row for row in Y]
    taug = longtail.Taug(base=longtail.DiSMEC(n_jobs=1), tau=0.3, random_state=0)
    assert UnitRows(model=Centroid()).fit(X, labels).score_groups_ is None
    assert UnitRows(model=taug).fit(X, labels).score_groups_.tolist() == [0, 1, 1, 1]
    assert clone(taug).fit(X, labels).score_groups_.tolist() == [0, 1, 1, 1]
    twice = UnitRows(model=UnitRows(model=longtail.PropensityRerank(base=Popularity(), folds=2))).fit(X, labels)
    for exponent in (0.0, 1.0):
        np.testing.assert_array_equal(
            twice.predict(X, k=2, exponent=exponent).scores,
            twice.model_.model_.predict(X, k=2, exponent=exponent).scores,
        )
    with pytest.raises(ParameterError, match="takes no exponent; it has no options"):
        UnitRows(model=UnitRows(model=Popularity())).fit(X, labels).predict(X, k=2, exponent=0.5)


def test_unit_rows_refuse_a_model_of_texts() -> None:
    with pytest.raises(ParameterError, match="trained on features"):
        UnitRows(model=TextPipeline()).fit(np.eye(4), [[0], [1], [2], [3]])


def test_an_exponent_reaches_the_model_behind_the_features(tmp_path):
    wrapped = longtail.PropensityRerank(base=Popularity(), exponent=0.0, folds=2)
    model = TextPipeline(model=wrapped, features=TextFeatures(min_df=1, max_df=1.0)).fit(TEXTS, Y)
    X = model.features_.transform(TEXTS)
    for exponent in (0.0, 1.0):
        expected = model.model_.predict(X, k=2, exponent=exponent)
        np.testing.assert_array_equal(model.predict(TEXTS, k=2, exponent=exponent).scores, expected.scores)
    assert not np.array_equal(model.predict(TEXTS, exponent=1.0, k=2).scores, model.predict(TEXTS, k=2).scores)
    with pytest.raises(ParameterError, match="this TextPipeline takes no exponent; it has no options"):
        TextPipeline(model=Popularity()).fit(TEXTS, Y).predict(TEXTS, exponent=0.5)


@pytest.mark.parametrize("hashing", [None, 32])
def test_words_with_half_a_pair_of_surrogates_can_be_kept(hashing, tmp_path):
    """A pattern may take such words, which have no UTF-8: the half becomes a question mark."""
    features = TextFeatures(token_pattern=r"\S+", min_df=1, max_df=1.0, hashing=hashing)
    texts = ["law \ud800", "art x\udfff"] * 3
    model = TextPipeline(model=longtail.DiSMEC(), features=features).fit(texts, [[0], [1]] * 3)
    model.save(tmp_path / "m")
    loaded = longtail.load_model(tmp_path / "m")
    assert loaded.predict(["\udc01", "x?"], k=1).labels.tolist() == [[0], [1]]
