"""Ensembles: means with known answers, fitted weights, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit
from sklearn.base import clone

import longtail
from compose.planted_tail import N_LABELS, planted_tail
from longtail.compose.ensemble import _mixture_weights, united_labels
from longtail.errors import NotFittedError, ParameterError

(X, Y), (X_TEST, Y_TEST) = planted_tail(600), planted_tail(300, seed=1)


def test_a_model_with_itself_ranks_as_it_does_alone():
    alone = longtail.DiSMEC().fit(X, Y).predict(X_TEST, k=5)
    for combine in ("scores", "ranks"):
        twice = longtail.Ensemble(models=[longtail.DiSMEC(), longtail.DiSMEC()], combine=combine).fit(X, Y)
        np.testing.assert_array_equal(twice.predict(X_TEST, k=5).labels, alone.labels)


def test_scores_are_the_log_of_the_weighted_mean_probability():
    models = [longtail.DiSMEC(), longtail.Parabel(max_leaf=5, n_trees=1)]
    model = longtail.Ensemble(models=models, weights=[3, 1], candidates=N_LABELS).fit(X, Y)
    mean = np.zeros((300, N_LABELS))
    for weight, part, calibration in zip((0.75, 0.25), model.models_, model.calibrations_, strict=True):
        raw = part.predict(X_TEST, k=N_LABELS)
        for i in range(300):
            own = raw.labels[i] >= 0
            z = calibration(raw.scores[i, own], np.zeros(own.sum(), np.int8))
            mean[i, raw.labels[i, own]] += weight / (1 + np.exp(-z))
    found = model.predict(X_TEST, k=4)
    np.testing.assert_allclose(found.scores, -np.sort(-np.log(mean), axis=1)[:, :4], rtol=1e-4, atol=1e-6)


def test_scores_of_head_and_tail_are_calibrated_apart(tmp_path):
    model = longtail.Ensemble(models=[longtail.Taug(tau=0.2, n_aug=2)]).fit(X, Y)
    head, tail = model.calibrations_[0].parts
    raw, groups = model.models_[0].predict(X_TEST, k=N_LABELS), model.models_[0].score_groups_
    assert not np.allclose(head(raw.scores.astype(float)), tail(raw.scores.astype(float)))
    expected = np.zeros((300, N_LABELS))
    for i in range(300):
        for label, score in zip(raw.labels[i], raw.scores[i].astype(np.float64), strict=True):
            expected[i, label] = expit((head, tail)[groups[label]](np.array([score]))[0])
    found = model.predict(X_TEST, k=4)
    np.testing.assert_allclose(found.scores, np.log(-np.sort(-expected, axis=1)[:, :4]), rtol=1e-4, atol=1e-6)
    model.save(tmp_path / "m")
    np.testing.assert_array_equal(longtail.load_model(tmp_path / "m").predict(X_TEST, k=4).scores, found.scores)


def test_ranks_are_counted_from_the_last_candidate():
    models = [longtail.DiSMEC(), longtail.Popularity()]
    model = longtail.Ensemble(models=models, combine="ranks", weights=[2, 1], candidates=4).fit(X, Y)
    points = np.zeros((300, N_LABELS))
    for weight, part in zip((2 / 3, 1 / 3), model.models_, strict=True):
        for rank, labels in enumerate(part.predict(X_TEST, k=4).labels.T, start=1):
            points[np.arange(300), labels] += weight * (5 - rank)
    found = model.predict(X_TEST, k=4)
    np.testing.assert_allclose(found.scores, -np.sort(-points, axis=1)[:, :4], rtol=1e-5)


def test_beyond_the_candidates_ranks_follow_the_models():
    alone = longtail.DiSMEC().fit(X, Y).predict(X_TEST, k=10).labels
    twice = [longtail.DiSMEC(), longtail.DiSMEC()]
    for models, weights in ((twice[:1], None), (twice, None), ([longtail.DiSMEC(), longtail.Popularity()], [1, 0])):
        model = longtail.Ensemble(models=models, combine="ranks", weights=weights, candidates=3).fit(X, Y)
        np.testing.assert_array_equal(model.predict(X_TEST, k=10).labels, alone)


def test_beyond_the_candidates_the_best_rank_counts_and_then_the_weight():
    models = [longtail.Popularity(), longtail.DiSMEC()]
    model = longtail.Ensemble(models=models, combine="ranks", weights=[1, 2], candidates=3).fit(X, Y)
    ranks = [np.argsort(part.predict(X_TEST, k=N_LABELS).labels, axis=1) for part in model.models_]
    found = model.predict(X_TEST, k=N_LABELS)
    for i, labels in enumerate(found.labels):
        pairs = [(int(ranks[0][i, label]), int(ranks[1][i, label])) for label in labels]
        beyond = [min(pair) >= 3 for pair in pairs]
        assert beyond == sorted(beyond), "candidates come first"
        order = [(min(pair), min(pair) != pair[1]) for pair, is_beyond in zip(pairs, beyond, strict=True) if is_beyond]
        assert order == sorted(order)
    for k in (2, 3, 5, 11):
        np.testing.assert_array_equal(model.predict(X_TEST, k=k).labels, found.labels[:, :k])


@pytest.mark.parametrize("combine", ["scores", "ranks"])
def test_fitted_weights_know_the_better_model(combine):
    models = [longtail.Popularity(), longtail.DiSMEC()]
    model = longtail.Ensemble(models=models, combine=combine, weights="fitted").fit(X, Y)
    assert model.weights_[1] > 0.7
    assert model.weights_.sum() == pytest.approx(1)


def test_the_weights_of_a_known_mixture_are_found_again():
    rng = np.random.default_rng(0)
    probabilities = rng.random((100_000, 3))
    hits = rng.random(100_000) < probabilities @ [0.6, 0.4, 0.0]
    np.testing.assert_allclose(_mixture_weights(probabilities, hits), [0.6, 0.4, 0.0], atol=0.03)


def test_proposals_are_united_label_by_label():
    rng = np.random.default_rng(0)
    labels = np.hstack([np.stack([rng.permutation(9)[:4] for _ in range(30)]) for _ in range(3)]).astype(np.int32)
    labels[rng.random(labels.shape) < 0.2] = -1
    values = rng.random(labels.shape)
    united, vectors = united_labels(labels, values, 3)
    for i in range(30):
        expected: dict[int, list[float]] = {}
        for j in range(12):
            if labels[i, j] >= 0:
                expected.setdefault(int(labels[i, j]), [0.0] * 3)[j // 4] = values[i, j]
        kept = united[i] >= 0
        assert dict(zip(united[i, kept].tolist(), vectors[i, kept].tolist(), strict=True)) == expected


def test_fitted_models_are_used_as_they_are():
    fitted = [longtail.DiSMEC().fit(X, Y), longtail.Popularity().fit(X, Y)]
    model = longtail.Ensemble(models=fitted, prefit=True, weights="fitted").fit(X_TEST, Y_TEST)
    assert all(one is other for one, other in zip(model.models_, fitted, strict=True))
    assert model.n_points_ == 600
    with pytest.raises(NotFittedError, match="not fitted"):
        longtail.Ensemble(models=[longtail.DiSMEC()], prefit=True).fit(X_TEST, Y_TEST)


def test_parameters_of_the_models_are_reached_by_number():
    model = longtail.Ensemble(models=[longtail.DiSMEC(), longtail.RankNet(base=longtail.Parabel())])
    assert model.get_params()["models__1__base__n_trees"] == 3
    copy = clone(model).set_params(models__0__C=7.0, models__1__base__n_trees=1, combine="ranks")
    assert (copy.models[0].C, copy.models[1].base.n_trees, copy.combine) == (7.0, 1, "ranks")
    assert (model.models[0].C, model.models[1].base.n_trees) == (1.0, 3), "a clone shares nothing"
    with pytest.raises(ParameterError, match="no model 2"):
        model.set_params(models__2__C=1)


def test_a_model_is_replaced_by_number():
    models = [longtail.DiSMEC(), longtail.Popularity()]
    for given in (models, tuple(models)):
        model = longtail.Ensemble(models=given)
        model.set_params(models__0__n_trees=2, models__0=longtail.Parabel())
        assert isinstance(model.models, type(given))
        assert isinstance(model.get_params()["models__0"], longtail.Parabel)
        assert model.models[0].n_trees == 2
        assert model.models[1] is models[1]
    assert isinstance(models[0], longtail.DiSMEC), "the list that was given stays what it is"


@pytest.mark.parametrize("wrong", ["models__x", "models__", "models__x__C", "models__0__", "models__²", "models__-1"])
def test_what_is_no_model_says_what_one_is(wrong):
    with pytest.raises(ParameterError, match="models__0 is the first model"):
        longtail.Ensemble(models=[longtail.DiSMEC()]).set_params(**{wrong: 3})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"models": None}, "models is None"),
        ({"models": []}, "at least one"),
        ({"models": ["dismec"]}, r"models\[0\]"),
        ({"models": [longtail.DiSMEC(), longtail.TextPipeline()]}, "texts"),
        ({"combine": "product"}, "combine"),
        ({"weights": [1]}, "2 numbers"),
        ({"weights": [1, -1]}, "2 numbers"),
        ({"weights": [0, 0]}, "2 numbers"),
        ({"weights": "best"}, "fitted"),
        ({"candidates": 0}, "candidates"),
        ({"prefit": "no"}, "prefit"),
    ],
)
def test_parameters_that_make_no_sense_are_refused(arguments, message):
    with pytest.raises(ParameterError, match=message):
        longtail.Ensemble(**({"models": [longtail.DiSMEC(), longtail.Popularity()]} | arguments)).fit(X, Y)
