"""Labels by name, frames in and out, probabilities, progress and scikit-learn's scorers, as a notebook uses them."""

from __future__ import annotations

import numpy as np
import pandas
import pytest
from scipy import sparse
from sklearn.metrics import f1_score, get_scorer
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.model_selection import cross_val_score as of_scikit_learn

import longtail
from contract.planted import N_LABELS, planted
from longtail.errors import DataError, ParameterError
from longtail.metrics import cross_val_score

TRAIN, TEST = planted(90), planted(30, seed=1)
NAMES = ["Chile", "fisheries", "lakes", "peat", "salmon", "trade"]
LISTS = [[NAMES[label] for label in labels] for labels in TRAIN.lists]


def words(model=None):
    return longtail.TextPipeline(model=model, features=longtail.TextFeatures(min_df=1))


def test_labels_are_given_and_returned_by_name():
    model = words().fit(TRAIN.texts, LISTS)
    assert model.label_names_ == NAMES
    by_id = words().fit(TRAIN.texts, TRAIN.Y).predict(TEST.texts, k=2)
    found = model.predict(TEST.texts, k=2)
    np.testing.assert_array_equal(found.labels, by_id.labels)
    assert found.names == [[NAMES[label] for label in row] for row in found.labels]
    assert found[3:5].top(1).names == [row[:1] for row in found.names[3:5]]
    with pytest.raises(ParameterError, match="the model has no label names"):
        _ = by_id.names


def test_a_given_order_of_names_is_kept_and_must_cover_the_labels():
    order = NAMES[::-1]
    model = longtail.Popularity().fit(TRAIN.X, LISTS, label_names=order)
    np.testing.assert_array_equal(model.label_counts_, np.bincount(TRAIN.Y.indices, minlength=N_LABELS)[::-1])
    with pytest.raises(DataError, match=r"the label 'trade' of point .* is not in label_names"):
        longtail.Popularity().fit(TRAIN.X, LISTS, label_names=NAMES[:-1])


@pytest.mark.parametrize(
    ("Y", "message"),
    [
        (["Chile;lakes"] * 90, r"the labels of point 0 are one string, 'Chile;lakes'; .*split"),
        ([["Chile", 3]] * 90, "the labels of point 0 mix names and numbers"),
        ([["Chile"]] * 89, "X has 90 points, but Y has 89"),
        ([[0.5]] * 90, "one list of label ids"),
        (3, "Y must be an indicator matrix"),
    ],
)
def test_lists_that_are_not_labels_are_refused(Y, message):
    with pytest.raises(DataError, match=message):
        longtail.Popularity().fit(TRAIN.X, Y)


def test_frames_and_series_are_what_they_hold():
    frame = pandas.DataFrame({"text": TRAIN.texts, "subjects": LISTS}, index=range(100, 190))
    expected = words().fit(TRAIN.texts, LISTS).predict(TEST.texts, k=3)
    found = words().fit(frame["text"], frame["subjects"]).predict(pandas.Series(TEST.texts), k=3)
    np.testing.assert_array_equal(found.labels, expected.labels)
    features = pandas.DataFrame(TRAIN.X.toarray())
    indicator = pandas.DataFrame(TRAIN.Y.toarray().astype(int), columns=NAMES)
    model = longtail.DiSMEC().fit(features, indicator)
    assert model.label_names_ == NAMES
    again = model.predict(pandas.DataFrame(TEST.X.toarray()), k=2)
    np.testing.assert_array_equal(again.labels, longtail.DiSMEC().fit(TRAIN.X, TRAIN.Y).predict(TEST.X, k=2).labels)


def test_predictions_as_a_frame():
    found = longtail.Predictions([[1, 0], [2, -1]], [[0.5, 0.25], [1.0, -np.inf]], 3, ["a", "b", "c"])
    frame = found.to_frame()
    assert frame.to_dict("list") == {
        "point": [0, 0, 1], "rank": [1, 2, 1], "label": ["b", "a", "c"], "score": [0.5, 0.25, 1.0]
    }  # fmt: skip
    assert found.to_frame(ids=["x", "y"])["point"].tolist() == ["x", "x", "y"]
    assert longtail.Predictions([[1]], [[0.5]]).to_frame()["label"].tolist() == [1]
    assert longtail.Predictions([[1]], [[0.5]]).to_frame(["no", "yes"])["label"].tolist() == ["yes"]
    with pytest.raises(DataError, match="label 1 is predicted, but there are only 1 names"):
        longtail.Predictions([[1]], [[0.5]]).to_frame(["no"])
    with pytest.raises(DataError, match="there are 2 points, but 1 ids"):
        found.to_frame(ids=["x"])


def test_predictions_as_an_indicator():
    found = longtail.Predictions([[1, 0], [2, -1]], [[0.5, 0.0], [-1.0, -np.inf]], 3)
    assert found.to_indicator().toarray().tolist() == [[1, 1, 0], [0, 0, 1]]
    assert found.to_indicator(threshold=0.0).toarray().tolist() == [[1, 1, 0], [0, 0, 0]]
    assert found.to_indicator(threshold=0.1, n_labels=4).toarray().tolist() == [[0, 1, 0, 0], [0, 0, 0, 0]]
    with pytest.raises(ParameterError, match="give n_labels"):
        longtail.Predictions([[1]], [[0.5]]).to_indicator()
    with pytest.raises(ParameterError, match="threshold is nan"):
        found.to_indicator(threshold=np.nan)


@pytest.mark.parametrize(
    "model",
    [
        longtail.Popularity(),
        longtail.DiSMEC(loss="logistic"),
        longtail.UnitRows(model=longtail.DiSMEC(loss="logistic")),
        longtail.PropensityRerank(folds=2, exponent=0),
        longtail.Ensemble(models=[longtail.DiSMEC(), longtail.Popularity()]),
        longtail.Taug(tau=0.3, merge="calibrated"),
    ],
)
def test_probabilities_are_between_0_and_1_and_rank_as_scores_do(model):
    model.fit(TRAIN.X, TRAIN.Y)
    found, scores = model.predict_probabilities(TEST.X, k=3), model.predict(TEST.X, k=3)
    np.testing.assert_array_equal(found.labels, scores.labels)
    kept = found.labels >= 0
    assert ((found.scores[kept] >= 0) & (found.scores[kept] <= 1)).all()
    assert found.scores[:, 0].mean() > 0.2


def test_models_without_probabilities_say_what_to_do():
    for model in (
        longtail.DiSMEC(),
        longtail.PropensityRerank(folds=2),
        longtail.DiSMEC(loss="logistic", weighting="pw"),
    ):
        assert not hasattr(model, "predict_probabilities")
    with pytest.raises(AttributeError) as caught:
        longtail.DiSMEC().fit(TRAIN.X, TRAIN.Y).predict_probabilities(TEST.X)
    assert "model.calibrate(X, Y)" in str(caught.value)


def test_the_score_is_precision_at_1():
    model = longtail.DiSMEC().fit(TRAIN.X, TRAIN.Y, label_names=NAMES)
    expected = longtail.evaluate(model.predict(TEST.X, k=1), TEST.Y, ks=(1,))["P@1"] / 100
    names = [[NAMES[label] for label in labels] for labels in TEST.lists]
    assert model.score(TEST.X, TEST.Y) == model.score(TEST.X, names) == pytest.approx(expected)
    assert model.score(TEST.X, [["unknown"]] * 30) == 0
    silent = sparse.vstack([TEST.X[:1], sparse.csr_matrix(TEST.X[:1].shape)], format="csr")
    assert model.score(silent, [TEST.lists[0]] * 2) == 0.5  # a point without a prediction is a miss


def test_cross_validation_with_sparse_labels():
    by_score = cross_val_score(longtail.DiSMEC(), TRAIN.X, TRAIN.Y, cv=3)
    assert (by_score > 0.9).all()
    dense = of_scikit_learn(longtail.DiSMEC(), TRAIN.X, TRAIN.Y.toarray(), cv=KFold(3))
    np.testing.assert_array_equal(by_score, dense)
    assert (cross_val_score(words(), TRAIN.texts, LISTS, scoring="PSP@1", cv=2) > 0.8).all()
    model = longtail.IndicatorClassifier(model=longtail.DiSMEC(), threshold=0.0)
    for scoring in ("f1_micro", "f1_macro", "jaccard_samples", "accuracy"):
        assert cross_val_score(model, TRAIN.X, TRAIN.Y, cv=3, scoring=scoring).mean() > 0.9
    fitted = longtail.IndicatorClassifier(k=1).fit(TRAIN.X, TRAIN.Y)
    best = longtail.DiSMEC().fit(TRAIN.X, TRAIN.Y).predict(TEST.X, k=1).to_indicator()
    assert get_scorer("f1_micro")(fitted, TEST.X, TEST.Y) == f1_score(TEST.Y, best, average="micro")
    search = GridSearchCV(model, {"model__C": [0.1, 1.0]}, scoring="f1_micro", cv=2, error_score="raise")
    assert search.fit(TRAIN.X, TRAIN.Y).best_score_ > 0.9


def test_verbose_shows_progress_and_silence_is_the_default(capsys, monkeypatch):
    longtail.DiSMEC().fit(TRAIN.X, TRAIN.Y)
    assert capsys.readouterr() == ("", "")
    monkeypatch.setattr("longtail.core.display._LINE_SECONDS", 0.0)
    longtail.DiSMEC().fit(TRAIN.X, TRAIN.Y, verbose=True)
    assert "of" in capsys.readouterr().err
    monkeypatch.setenv("FORCE_COLOR", "1")  # what makes Rich take a pipe for a terminal
    longtail.DiSMEC().fit(TRAIN.X, TRAIN.Y, verbose=True)
    assert "left:" in capsys.readouterr().err
