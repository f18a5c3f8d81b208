"""PropensityRerank: the closed form, its lever, and what it refuses."""

from __future__ import annotations

import numpy as np
import pytest

import longtail
from compose.bases import Flat, Witness
from compose.planted_tail import N_LABELS, planted_tail
from contract.planted import planted
from longtail.compose.candidates import best_of, log_quotient
from longtail.compose.dial import candidates_of
from longtail.core.run import Run
from longtail.core.unseen import predict_unseen
from longtail.errors import DataError, NotFittedError, ParameterError
from longtail.metrics import Matches, score
from longtail.objectives import PropensityModel

(X, Y), (X_TEST, Y_TEST) = planted_tail(600), planted_tail(300, seed=1)


@pytest.fixture(scope="module")
def model():
    return longtail.PropensityRerank(base=longtail.DiSMEC()).fit(X, Y)


def test_exponent_zero_ranks_as_the_base(model):
    base = longtail.DiSMEC().fit(X, Y)
    found = model.predict(X_TEST, k=5, exponent=0)
    np.testing.assert_array_equal(found.labels, base.predict(X_TEST, k=5).labels)


def test_scores_are_the_quotient_of_the_closed_form(model):
    found = model.predict(X_TEST, k=5, exponent=0.7)
    raw = model.base_.predict(X_TEST, k=N_LABELS)
    inverse = PropensityModel().inverse(np.asarray(Y.sum(axis=0)).ravel(), X.shape[0])
    probability = 1 / (1 + np.exp(-model.calibration_.parts[0](raw.scores.astype(np.float64))))
    quotient = probability * inverse[raw.labels] ** 0.7
    order = np.argsort(-quotient, axis=1, kind="stable")[:, :5]
    np.testing.assert_array_equal(found.labels, np.take_along_axis(raw.labels, order, 1))
    np.testing.assert_allclose(found.scores, np.log(np.take_along_axis(quotient, order, 1)), rtol=1e-4, atol=1e-5)


def test_a_larger_exponent_brings_rarer_labels_and_more_psp(model):
    counts = model.label_counts_
    inverse = PropensityModel().inverse(counts, model.n_points_)
    popularity, psp = [], []
    for exponent in (0.0, 0.3, 1.0):
        found = model.predict(X_TEST, k=1, exponent=exponent)
        popularity.append(counts[found.labels].mean())
        psp.append(longtail.evaluate(found, Y_TEST, inverse_propensities=inverse, ks=[1])["PSP@1"])
    assert popularity[0] > popularity[1] > popularity[2]
    assert psp[0] + 5 < psp[1] < psp[2]


def test_the_exponent_can_be_moved_after_fit_in_two_ways(model, tmp_path):
    asked = model.predict(X_TEST, k=3, exponent=1.0)
    assert model.exponent is None
    model.save(tmp_path / "m")
    loaded = longtail.load_model(tmp_path / "m").set_params(exponent=1.0)
    np.testing.assert_array_equal(loaded.predict(X_TEST, k=3).scores, asked.scores)
    for wrong in (-0.1, 1.1, "much", True):
        with pytest.raises(ParameterError, match="exponent"):
            model.predict(X_TEST, k=3, exponent=wrong)


@pytest.fixture(scope="module")
def priced():
    """Points that a base has not seen, where the tail costs precision, and a module with a price stated on them."""
    data = longtail.make_longtail(n_points=800, n_features=500, n_labels=60, n_test_points=800)
    base = longtail.DiSMEC().fit(data.train.X, data.train.Y)
    shares = (base.label_counts_ + 1) / (base.label_counts_ + 1).max()  # as propensities: rare labels are worth a price
    given = {"base": base, "prefit": True, "propensity": shares}

    def fitted(loss, metric="P@1"):
        model = longtail.PropensityRerank(**given, max_precision_loss=loss, price_metric=metric)
        model.fit(data.test.X, data.test.Y)
        at = [model.predict(data.test.X, k=5, exponent=exponent) for exponent in (0.0, model.exponent_)]
        before, after = (100 * score(Matches.of(found, data.test.Y), metric) for found in at)
        return model.exponent_, before - after

    return fitted


@pytest.mark.parametrize("metric", ["P@1", "nDCG@5"])
def test_the_price_chooses_the_exponent(priced, metric):
    chosen = {price: priced(price, metric) for price in (0, 1, 3)}
    assert chosen[0][0] < chosen[1][0] < chosen[3][0] < 1
    for price, (_, paid) in chosen.items():
        assert price / 2 - 0.3 <= paid <= price + 0.3, "up to half of it is kept in reserve"


def test_the_price_is_that_of_the_metric(priced):
    assert priced(1, "P@1")[0] != priced(1, "nDCG@5")[0]


def test_without_a_price_the_exponent_is_a_half(tmp_path):
    model = longtail.PropensityRerank(folds=2, max_precision_loss=None).fit(X, Y)
    assert model.exponent_ == 0.5
    np.testing.assert_array_equal(model.predict(X_TEST).scores, model.predict(X_TEST, exponent=0.5).scores)


def test_a_wrong_parameter_set_after_fit_is_named():
    model = longtail.PropensityRerank(folds=2).fit(X, Y).set_params(candidates=0)
    with pytest.raises(ParameterError, match="candidates is 0"):
        model.predict(X_TEST, k=3)


def test_a_fitted_base_is_used_as_it_is_with_the_counts_it_was_trained_on():
    base = longtail.DiSMEC().fit(X, Y)
    model = longtail.PropensityRerank(base=base, prefit=True).fit(X_TEST, Y_TEST)
    assert model.base_ is base
    assert model.n_points_ == X.shape[0]
    np.testing.assert_array_equal(model.label_counts_, base.label_counts_)
    np.testing.assert_array_equal(model.predict(X_TEST, k=3, exponent=0).labels, base.predict(X_TEST, k=3).labels)


def test_a_base_that_is_not_fitted_or_has_other_labels_is_refused():
    with pytest.raises(NotFittedError, match="not fitted"):
        longtail.PropensityRerank(base=longtail.DiSMEC(), prefit=True).fit(X_TEST, Y_TEST)
    base = longtail.DiSMEC().fit(X, Y[:, :10])
    with pytest.raises(DataError, match="Y has 18 labels, but the base was fitted with 10"):
        longtail.PropensityRerank(base=base, prefit=True).fit(X_TEST, Y_TEST)


def test_a_base_without_scores_is_refused():
    with pytest.raises(DataError, match="same score"):
        longtail.PropensityRerank(base=Flat()).fit(X, Y)
    for base in ("dismec", longtail.DiSMEC, object()):
        with pytest.raises(ParameterError, match="must be a longtail estimator"):
            longtail.PropensityRerank(base=base).fit(X, Y)


@pytest.mark.parametrize(
    "arguments",
    [
        {"exponent": 2}, {"exponent": -1}, {"candidates": 0}, {"folds": 1}, {"held_out": 1.5}, {"random_state": -1},
        {"prefit": "no"}, {"max_precision_loss": -1}, {"price_metric": "PSP@1"}, {"price_metric": "P@16"},
    ],
)  # fmt: skip
def test_parameters_that_make_no_sense_are_refused(arguments):
    with pytest.raises(ParameterError, match=next(iter(arguments))):
        longtail.PropensityRerank(**arguments).fit(X, Y)


def test_a_wrong_parameter_of_the_base_is_said_before_any_training(monkeypatch):
    monkeypatch.setattr(Witness, "fits", [])
    with pytest.raises(ParameterError, match="C is -1"):
        longtail.PropensityRerank(base=longtail.DiSMEC(C=-1)).fit(X, Y)


def test_propensities_that_do_not_fit_are_said_before_any_training(monkeypatch):
    monkeypatch.setattr(Witness, "fits", [])
    for wrong in ([0.5] * 3, [0.0] * N_LABELS, "nonsense"):
        with pytest.raises(ParameterError, match="propensit"):
            longtail.PropensityRerank(base=Witness(), propensity=wrong).fit(X, Y)
    assert Witness.fits == []


def test_what_x_is_follows_the_base():
    data = planted(90)
    pipeline = longtail.TextPipeline(model=longtail.DiSMEC(), features=longtail.TextFeatures(min_df=1))
    model = longtail.PropensityRerank(base=pipeline, folds=2)
    assert model.input_kind == "text"
    assert longtail.PropensityRerank.input_kind == longtail.PropensityRerank().input_kind == "features"
    model.fit(data.texts, data.Y)
    assert (model.predict(data.texts, k=1).labels[:, 0] == np.asarray(data.Y.argmax(axis=1)).ravel()).mean() > 0.6
    with pytest.raises(DataError, match="texts"):
        model.predict(data.X, k=1)


def test_wrappers_nest(tmp_path):
    inner = longtail.Ensemble(models=[longtail.DiSMEC(), longtail.Parabel(max_leaf=5, n_trees=1)])
    model = longtail.PropensityRerank(base=longtail.Taug(base=inner, n_aug=1), folds=2, exponent=0.3)
    model.fit(X, Y).save(tmp_path / "m")
    found = longtail.load_model(tmp_path / "m").predict(X_TEST, k=5)
    np.testing.assert_array_equal(found.labels, model.predict(X_TEST, k=5).labels)
    assert longtail.evaluate(found, Y_TEST, ks=[1])["P@1"] > 50


def test_scores_of_taugs_two_models_are_calibrated_apart(tmp_path):
    raw = longtail.Taug(base=longtail.DiSMEC(), tau=0.2, n_aug=8)
    model = longtail.PropensityRerank(base=raw, folds=2, exponent=0.3).fit(X, Y)
    assert len(model.calibration_.parts) == 2
    head, tail = (part(np.array([0.0]))[0] for part in model.calibration_.parts)
    assert head != tail
    model.save(tmp_path / "m")
    found = longtail.load_model(tmp_path / "m").predict(X_TEST, k=5)
    np.testing.assert_array_equal(found.scores, model.predict(X_TEST, k=5).scores)
    apart = longtail.Taug(base=longtail.DiSMEC(), tau=0.2, merge="calibrated")
    assert len(longtail.PropensityRerank(base=apart, folds=2).fit(X, Y).calibration_.parts) == 1, "one scale already"


def test_the_best_of_candidates_and_a_plain_twin():
    rng = np.random.default_rng(0)
    labels = np.stack([rng.permutation(30)[:12] for _ in range(50)]).astype(np.int32)
    labels[rng.random(labels.shape) < 0.3] = -1
    scores = rng.integers(0, 4, labels.shape).astype(np.float32)
    found = best_of(labels, scores, 5)
    for i in range(50):
        ranked = sorted((-s, label) for label, s in zip(labels[i], scores[i], strict=True) if label >= 0)[:5]
        expected = [label for _, label in ranked] + [-1] * (5 - len(ranked))
        assert found.labels[i].tolist() == expected


def test_labels_without_points_and_propensities_of_ones_own():
    given = np.full(N_LABELS, 0.5)
    model = longtail.PropensityRerank(propensity=given.tolist(), folds=2).fit(X, Y)
    np.testing.assert_array_equal(
        model.predict(X_TEST, k=3, exponent=1).labels, model.predict(X_TEST, k=3, exponent=0).labels
    )
    with pytest.raises(ParameterError, match="propensit"):
        longtail.PropensityRerank(propensity=[0.5], folds=2).fit(X, Y)


def test_an_objective_ranks_by_what_a_label_is_worth_and_keeps_its_probabilities(tmp_path):
    data = longtail.make_longtail(n_points=1500, n_labels=150, n_features=500, random_state=1)
    train, test = data.train, data.test
    settings = {"exponent": 0, "candidates": 30, "held_out": 0.3}
    by = {
        objective: longtail.PropensityRerank(objective=objective, **settings).fit(train.X, train.Y)
        for objective in (None, "macro-f1@5")
    }
    macro = {
        objective: longtail.metrics.evaluate(model.predict(test.X, k=5), test.Y)["macro-F1@5"]
        for objective, model in by.items()
    }
    assert macro["macro-f1@5"] > macro[None]
    model = by["macro-f1@5"]
    found = model.predict(test.X[:50], k=5, calibrated=True)
    base = by[None].predict(test.X[:50], k=30, calibrated=True).to_csr(150).toarray()
    np.testing.assert_allclose(found.scores, np.take_along_axis(base, found.labels, axis=1), rtol=1e-2, atol=1e-5)
    model.save(tmp_path / "m")
    np.testing.assert_array_equal(longtail.load_model(tmp_path / "m").predict(test.X[:50], k=5).labels, found.labels)
    for wrong in ("psp@5", "macro-f1", "coverage@5", 3):
        with pytest.raises(ParameterError, match="objective is"):
            longtail.PropensityRerank(objective=wrong).fit(train.X, train.Y)


@pytest.mark.parametrize("kind", ["propensityrerank", "ensemble", "pipeline"])
def test_models_that_left_points_out_promise_a_recall_without_a_further_calibration(kind, tmp_path):
    data = longtail.make_longtail(n_points=1500, n_labels=60, n_features=300, random_state=2)
    train, test = data.train, data.test
    rerank = longtail.PropensityRerank(held_out=0.5)
    model = {
        "propensityrerank": rerank,
        "ensemble": longtail.Ensemble(models=[longtail.DiSMEC(), longtail.DiSMEC(C=0.1)], held_out=0.5),
        "pipeline": longtail.UnitRows(model=rerank),
    }[kind].fit(train.X, train.Y)
    sets = model.predict_sets(test.X, recall_at_least=0.7)
    recall = longtail.metrics.evaluate_sets(sets, test.Y)["example-R"]
    assert 66 < recall < 90
    assert model.own_calibration().candidates == {"ensemble": 20}.get(kind, 15)
    model.save(tmp_path / "m")
    again = longtail.load_model(tmp_path / "m").predict_sets(test.X, recall_at_least=0.7)
    np.testing.assert_array_equal(again.labels, sets.labels)


def test_the_dial_finds_the_weighting_and_exponent_that_gain_most_at_the_price():
    data = longtail.make_longtail(n_points=900, n_features=500, n_labels=60, n_test_points=900)
    given = {"base": longtail.DiSMEC(), "folds": 2, "propensity": (0.55, 5.0)}
    plain = longtail.PropensityRerank(**given).fit(data.train.X, data.train.Y)
    model = longtail.PropensityRerank(**given, dial="pw-cb").fit(data.train.X, data.train.Y)
    names = [None, "pw-cb:0.25", "pw-cb:0.5", "pw-cb:0.75", "pw-cb:1"]
    assert model.base_.weighting in names
    # What was tried, again: no exponent of any weighting is worth more at the price.
    held = []
    for name in names:
        new = lambda name=name: longtail.DiSMEC(weighting=name)  # noqa: E731
        unseen = predict_unseen(new, data.train.X, data.train.Y, model, k=15, run=Run())
        held.append(candidates_of(unseen, data.train.Y[unseen.rows]))
    inverse = model.inverse_propensities_

    def reached(candidates, exponent):
        quotient = log_quotient(candidates.labels, candidates.log_odds, np.log(inverse), exponent)
        matches = Matches.of(best_of(candidates.labels, quotient, 1), candidates.truth, inverse_propensities=inverse)
        return score(matches, "P@1"), score(matches, "PSP@1")

    least = reached(held[0], 0.0)[0] - 0.01
    own = reached(held[names.index(model.base_.weighting)], model.exponent_)
    assert own[0] >= least
    worth = [
        psp + 0.25 * p for h in held for e in np.linspace(0, 1, 21) for p, psp in [reached(h, e)] if p >= least + 0.005
    ]
    assert own[1] + 0.25 * own[0] >= max(worth) - 1e-9, "what keeps half of the price is allowed"
    alone = reached(held[0], plain.exponent_)
    assert own[1] + 0.25 * own[0] >= alone[1] + 0.25 * alone[0]


def test_a_dial_of_one_weighting_chooses_between_two_bases_and_is_saved(tmp_path):
    model = longtail.PropensityRerank(folds=2, dial=["pw:0.5"]).fit(X, Y)
    assert model.base_.weighting in (None, "pw:0.5")
    model.save(tmp_path / "m")
    loaded = longtail.load_model(tmp_path / "m")
    assert loaded.dial == ["pw:0.5"]
    np.testing.assert_array_equal(loaded.predict(X_TEST).scores, model.predict(X_TEST).scores)
    assert not model.trains_in_parts
    assert longtail.PropensityRerank().trains_in_parts


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"dial": "cb"}, "unknown weighting"),
        ({"dial": []}, "dial is \\[\\], but must be a weighting"),
        ({"dial": 0.5}, "dial is 0.5, but must be a weighting"),
        ({"dial": "pw:2"}, "strength is 2.0"),
        ({"dial": "pw", "prefit": True}, "dial and prefit contradict each other"),
        ({"dial": "pw", "objective": "macro-f1@5"}, "dial and objective contradict"),
        ({"dial": "pw", "max_precision_loss": None}, "so max_precision_loss must be a number"),
        ({"dial": "pw", "base": longtail.Popularity()}, "Popularity takes no weighting"),
    ],
)
def test_a_dial_that_cannot_be_is_refused(given, message):
    with pytest.raises(ParameterError, match=message):
        longtail.PropensityRerank(**given).fit(X, Y)
