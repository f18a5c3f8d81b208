"""AutoModel: what is planned, what is chosen, and what it refuses."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from scipy import sparse

import longtail
from compose.planted_tail import planted_tail
from contract.planted import planted
from longtail.compose import frontier, portfolio
from longtail.compose.frontier import Reached
from longtail.core.checkpoint import Checkpoint
from longtail.core.run import Run
from longtail.errors import DataError, ParameterError

(X, Y), (X_TEST, Y_TEST) = planted_tail(300), planted_tail(200, seed=1)
FEW = ["dismec", "dismec/pw-cb:0.5"]
EURLEX = portfolio.Look(45_000, 4_108, 1_458, 215_905, 2_580, 12_333, row=136, per_point=5.07)
DEBIAN = portfolio.Look(55_424, 48_663, 2_325, 196_829, 32_679, 95_950, row=36.8, per_point=5.59)
YSO = portfolio.Look(335_083, 24_858, 12_830, 1_101_960, 11_799, 121_909, row=11.6, per_point=3.66)
DELICIOUS = portfolio.Look(12_920, 983, 983, 246_088, 0, 0, row=18.5, per_point=19)


@pytest.fixture(scope="module")
def model():
    return longtail.AutoModel(models=FEW).fit(X, Y)


def test_more_minutes_try_more_and_the_plan_reads_no_clock():
    plans = [portfolio.planned(EURLEX, minutes, portfolio.EVERY) for minutes in (0.001, 0.16, None, 60)]
    sizes = [len(plan.tried) for plan in plans]
    assert sizes[0] == 1 < sizes[1] < sizes[2] <= sizes[3] == len(portfolio.EVERY)
    for plan in plans:
        assert set(plan.tried) | set(plan.left_out) == set(portfolio.EVERY)
        assert plan.needed == plans[0].needed
    assert portfolio.planned(EURLEX, plans[0].needed + 0.01, portfolio.EVERY).left_out == []
    assert portfolio.planned(EURLEX, 0.16, portfolio.EVERY) == plans[1]
    assert plans[2].minutes == 1.0
    assert [plan.pairs for plan in plans] == [False, False, True, True], "models to try come first"
    assert len(plans[1].choices()) == len(plans[1].tried)
    assert portfolio.planned(EURLEX, 0.001, ["dismec"]).pairs, "there are none that time could add"


@pytest.mark.parametrize(
    ("look", "dismec", "bonsai"),  # half of the CPU seconds of one thread, by benchmarks.tail.costs
    [(EURLEX, 2.8, 3.1), (DEBIAN, 3.9, 4.9), (YSO, 19, 8.2), (DELICIOUS, 0.14, 0.2)],
)
def test_the_estimates_are_near_what_was_measured(look, dismec, bonsai):
    assert 0.6 < look.seconds("dismec") / dismec < 1.5
    assert 0.6 < look.seconds("bonsai") / bonsai < 1.5


def test_the_look_follows_the_rule_by_which_dismec_chooses_its_solver(monkeypatch):
    from longtail.linear import rare

    data = longtail.make_longtail(n_points=400, n_features=300, n_labels=120)
    X, Y = data.train.X, data.train.Y
    twice = sparse.hstack([Y, Y[:, [119]]]).tocsr()  # two labels with the same points are trained once
    plain = portfolio.Look.at(X, twice)
    assert (plain.frequent, plain.frequent_positives, plain.rare) == (plain.labels, twice.nnz, 0)
    monkeypatch.setattr(rare, "LEAST_WORK", 1)
    look, counts = portfolio.Look.at(X, twice), np.bincount(Y.indices, minlength=120)
    few = (counts > 0) & (counts <= 15)
    assert few.sum() > 20
    assert counts[119] <= 15
    assert (look.labels, look.frequent, look.frequent_positives) == (
        plain.labels,
        (counts > 15).sum(),
        counts[counts > 15].sum(),
    )
    assert 0 < look.rare <= few.sum(), "identical labels count once"
    model = longtail.DiSMEC().fit(X, twice)
    _, same_as = model.working_sets(twice, np.ones(121))
    assert same_as[120] == same_as[119]
    assert look.frequent + look.rare == np.unique(same_as[model.label_counts_ > 0]).size
    assert portfolio.Look.at(X, twice).seconds("dismec") <= plain.seconds("dismec")


def test_a_machine_that_is_slower_than_estimated_tries_less(monkeypatch):
    for slower, tried in ((1, len(portfolio.EVERY)), (3, 2), (100, 1)):
        now = [0.0]
        monkeypatch.setattr(portfolio.time, "monotonic", lambda now=now: now[0])
        plan = portfolio.planned(EURLEX, 0.5, portfolio.EVERY)
        watch, done = portfolio.Stopwatch(EURLEX, plan.minutes), []
        for name in plan.tried:
            if not done or watch.allows(*done, name):
                now[0] += slower * EURLEX.trial_seconds(name)
                watch.tried(name)
                done.append(name)
        short = plan.only(done, pairs=watch.allows(*done, together=True))
        assert len(short.tried) == tried
        assert set(short.tried) | set(short.left_out) == set(portfolio.EVERY)
        assert short.pairs == (slower == 1)
        if slower < 100:  # the first model is tried whatever it takes
            assert now[0] + slower * EURLEX.final_seconds(*done) <= 60 * plan.minutes
    assert portfolio.Stopwatch(EURLEX, None).allows(*portfolio.EVERY, together=True), "without minutes, no clock"


def test_each_kind_of_model_has_a_pace_of_its_own(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(portfolio.time, "monotonic", lambda: now[0])
    watch = portfolio.Stopwatch(EURLEX, 0.45)
    now[0] += EURLEX.trial_seconds("bonsai")
    watch.tried("bonsai")
    assert watch.allows("bonsai", "dismec")
    now[0] += 4 * EURLEX.trial_seconds("dismec")  # its final training will take four times the estimate, too
    watch.tried("dismec")
    assert watch.allows("bonsai", "dismec", "bonsai/pw-cb:0.5"), "only dismec is slow"
    assert not watch.allows("bonsai", "dismec", "dismec/pw-cb:0.5")


def test_the_most_of_the_tail_at_the_price_below_the_best_single_model():
    curves = [
        [Reached(("a",), 0.0, 80.0, 20.0), Reached(("a",), 0.5, 79.2, 25.0), Reached(("a",), 1.0, 78.0, 40.0)],
        [Reached(("b",), 0.0, 79.0, 24.0)],
        [Reached(("a", "b"), 0.0, 81.5, 22.0), Reached(("a", "b"), 0.5, 79.1, 25.1)],
    ]
    best = lambda loss: frontier.best(curves, curves[0][0], loss)  # noqa: E731
    assert best(1.0) is curves[0][1], "a second model must be worth more than 0.1"
    assert best(2.0) is curves[0][2]
    assert best(0.0) is curves[2][0], "the price counts from the best single model"


def test_the_exponent_is_chosen_between_those_of_the_curves():
    data = longtail.make_longtail(n_points=600, n_features=300, n_labels=60, n_test_points=600)
    model = longtail.DiSMEC().fit(data.train.X, data.train.Y)
    inverse = np.asarray(longtail.PropensityModel().inverse(model.label_counts_, 600))
    trials = frontier.Trials({"dismec": model.predict(data.test.X, k=20)}, data.test.Y, inverse, "P@1")
    moved = 0
    for coarse in trials.curve(("dismec",))[::4]:
        fine = trials.refined(coarse, trials.reference, 10.0)
        assert abs(fine.exponent - coarse.exponent) < 1 / 40
        assert fine.gained + 0.75 * fine.kept >= coarse.gained + 0.75 * coarse.kept
        moved += fine.exponent != coarse.exponent
    assert moved > 3


def test_a_price_that_buys_little_is_not_spent():
    plain = Reached(("a",), 0.0, 80.0, 20.0)
    for kept, gained, spent in ((79.5, 20.3, False), (79.5, 20.4, True), (79.5, 30.0, True)):
        curve = [plain, Reached(("a",), 0.1, kept, gained)]
        assert (frontier.best([curve], plain, 1.0) is curve[1]) == spent


def test_half_a_standard_error_is_kept_in_reserve_but_at_most_half_the_price():
    reference = Reached(("a",), 0.0, 80.0, 20.0)
    for kept, error, within in ((79.0, 0.0, True), (79.2, 0.6, False), (79.2, 0.3, True), (79.6, 9.0, True)):
        tempting = Reached(("b",), 0.5, kept, 30.0, error)
        assert (frontier.best([[reference], [tempting]], reference, 1.0) is tempting) == within
    assert frontier.rows([[Reached(("b",), 0.5, 79.2, 30.0, 0.6)]], reference, 1.0)[0]["at_price"] is None


def test_rows_of_any_length_are_scaled_where_that_is_better(model, tmp_path):
    lengths = np.random.default_rng(0).choice([0.03, 30.0], size=(300, 1))
    raw = longtail.AutoModel(models=FEW).fit(sparse.csr_matrix(X.multiply(lengths)), Y)
    assert raw.unit_rows_
    assert not model.unit_rows_, "rows of length 1 are tried once"
    assert "on rows of length 1" in raw.report_[2]
    assert raw.chosen_ == model.chosen_
    raw.save(tmp_path / "m")
    loaded = longtail.load_model(tmp_path / "m")
    assert loaded.unit_rows_
    long = sparse.csr_matrix(X_TEST * 7)
    np.testing.assert_array_equal(loaded.predict(long).labels, model.predict(X_TEST).labels)
    assert loaded.explain(long[:1], int(loaded.predict(long[:1]).labels[0, 0])).score is not None


def test_pairs_are_of_two_kinds():
    assert portfolio.pairs(["bonsai", "dismec", "dismec/pw"]) == [
        ("bonsai",), ("dismec",), ("dismec/pw",), ("bonsai", "dismec"), ("bonsai", "dismec/pw"),
    ]  # fmt: skip


def test_what_was_chosen_is_trained_on_all_points_and_reranked(model):
    (name,) = model.chosen_
    base = portfolio.model_named(name).fit(X, Y)
    plain = base.predict(X_TEST, k=5)
    np.testing.assert_array_equal(model.predict(X_TEST, k=5, exponent=0).labels, plain.labels)
    inverse = longtail.PropensityModel().inverse(model.label_counts_, model.n_points_)
    before, after = (
        longtail.evaluate(found, Y_TEST, inverse_propensities=inverse, ks=[1])
        for found in (longtail.DiSMEC().fit(X, Y).predict(X_TEST), model.predict(X_TEST))
    )
    assert after["PSP@1"] > before["PSP@1"] + 5
    assert after["P@1"] > before["P@1"] - 2


def test_two_models_are_averaged_and_saved(tmp_path):
    model = longtail.AutoModel(models=["bonsai", "dismec"]).fit(X, Y)
    rows = {tuple(row["models"]) for row in model.choices_["tried"]}
    assert rows == {("bonsai",), ("dismec",), ("bonsai", "dismec")}
    both = longtail.AutoModel(models=["bonsai", "dismec"], max_precision_loss=0.0).fit(X, Y)
    for fitted in (model, both):
        fitted.save(tmp_path / "m", overwrite=True)
        loaded = longtail.load_model(tmp_path / "m")
        np.testing.assert_array_equal(loaded.predict(X_TEST).scores, fitted.predict(X_TEST).scores)
        assert loaded.report_ == fitted.report_
        assert loaded.choices_ == fitted.choices_
        assert len(loaded.parts_) == len(loaded.chosen_)


def test_the_report_has_five_lines(model):
    looked, tried, chose, because, more = model.report_
    assert "300 points" in looked
    assert all(name in tried for name in FEW)
    assert model.chosen_[0] in chose
    assert "gains most for at most 1 of P@1: PSP@1" in because
    assert "everything" in more
    hasty = longtail.AutoModel(models=FEW, minutes=1e-6).fit(X, Y)
    assert hasty.chosen_ == ["dismec"]
    assert "more time would allow dismec/pw-cb:0.5" in hasty.report_[-1]


def test_a_killed_training_goes_on(model, tmp_path, monkeypatch):
    fits = []
    named = longtail.AutoModel._named

    def counted(self, name, unit_rows):
        fits.append(name)
        if len(fits) == 7:
            raise KeyboardInterrupt
        return named(self, name, unit_rows)

    monkeypatch.setattr(longtail.AutoModel, "_named", counted)
    with pytest.raises(KeyboardInterrupt):
        longtail.AutoModel(models=FEW).fit(X, Y, run=Run(checkpoint=Checkpoint(tmp_path / "c", resume=False)))
    again = longtail.AutoModel(models=FEW).fit(X, Y, run=Run(checkpoint=Checkpoint(tmp_path / "c", resume=True)))
    assert len(fits) == 7 + 4 + 1, "five folds of two models, of which six were finished, and one on all points"
    np.testing.assert_array_equal(again.predict(X_TEST).scores, model.predict(X_TEST).scores)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"minutes": 0}, "minutes is 0"),
        ({"minutes": -1}, "minutes is -1"),
        ({"max_precision_loss": -0.1}, "max_precision_loss"),
        ({"price_metric": "PSP@1"}, "price_metric is 'PSP@1'"),
        ({"price_metric": "P@50"}, "price_metric is 'P@50'"),
        ({"exponent": 2}, "exponent is 2"),
        ({"models": []}, "models is"),
        ({"models": "dismec"}, "models is"),
        ({"models": ["dismec", "dismec"]}, "different names"),
        ({"models": ["xgrank"]}, "takes bonsai and dismec"),
        ({"models": ["dismec/heavy"]}, "unknown weighting"),
        ({"models": ["dismec/unbiased"]}, "cannot train"),
    ],
)
def test_parameters_that_make_no_sense_are_refused(arguments, said):
    with pytest.raises(ParameterError, match=said):
        longtail.AutoModel(**arguments).fit(X, Y)


def test_data_that_leaves_nothing_to_choose_by_is_refused():
    with pytest.raises(DataError, match="one label leaves nothing to rank"):
        longtail.AutoModel(models=FEW).fit(X, np.ones((300, 1)))
    with pytest.raises(DataError, match="one point cannot be split"):
        longtail.AutoModel(models=FEW).fit(X[:1], Y[:1])
    with pytest.raises(DataError, match="dismec found no label of a held-out point"):
        longtail.AutoModel(models=FEW).fit(X[:12], sparse.eye(12, format="csr"))


def test_texts_go_through_features(tmp_path):
    data = planted(90)
    auto = longtail.AutoModel(models=FEW)
    model = longtail.TextPipeline(model=auto, features=longtail.TextFeatures(min_df=1)).fit(data.texts, data.Y)
    assert (model.predict(data.texts, k=1).labels[:, 0] == np.asarray(data.Y.argmax(axis=1)).ravel()).mean() > 0.6


def test_probabilities_do_not_depend_on_the_exponent(model):
    assert model.exponent_ > 0
    n = model.n_labels_
    plain, moved = (model.predict(X_TEST, k=n, calibrated=True, exponent=exponent) for exponent in (0.0, 0.7))
    base = {(i, label): p for i, row in enumerate(plain.rows()) for label, p in row}
    for i, row in enumerate(moved.rows()):
        for label, probability in row:
            assert probability == pytest.approx(base[i, label], rel=1e-4)
    first = model.predict(X_TEST, k=1, calibrated=True)
    right = np.asarray(Y_TEST[np.arange(200), first.labels[:, 0]]).ravel()
    assert abs(first.scores.mean() - right.mean()) < 0.1


def test_two_models_explain_their_mean_and_the_exponent():
    features, labels = planted_tail(300, seed=3)
    auto = longtail.AutoModel(models=["dismec", "bonsai"], exponent=0.4).fit(features, labels)
    for chosen in (["dismec", "bonsai"], ["dismec"]):
        trained = auto if chosen == auto.chosen_ else _of(auto, chosen, features, labels)
        best = trained.predict(X_TEST[:5], k=2)
        for row in range(5):
            for place in range(2):
                found = trained.explain(X_TEST[row], int(best.labels[row, place]))
                total = found.bias + sum(own.contribution for own in found.features)
                assert found.score == pytest.approx(best.scores[row, place], rel=1e-4, abs=1e-5)
                assert total == pytest.approx(found.score, rel=1e-4, abs=1e-5)


def _of(auto, chosen, features, labels):
    """Return an AutoModel that chose these models, with one calibration for all."""
    other = copy.copy(auto)
    other.chosen_ = chosen
    other.calibrations_ = [auto.calibrations_[0]] * len(chosen)
    other.parts_ = [auto._named(name, False).fit(features, labels) for name in chosen]
    return other


def test_sets_need_no_further_calibration(model, tmp_path):
    sets = model.predict_sets(X_TEST, budget=1.5)
    assert 0.5 < (sets.labels >= 0).sum() / 200 < 2
    assert model.probabilities_.n_points == 300
    model.save(tmp_path / "m")
    loaded = longtail.load_model(tmp_path / "m").predict_sets(X_TEST, recall_at_least=0.6)
    np.testing.assert_array_equal(loaded.labels, model.predict_sets(X_TEST, recall_at_least=0.6).labels)
    hits = np.asarray(Y_TEST[np.arange(200)[:, None], np.maximum(loaded.labels, 0)].todense())
    found = (hits * (loaded.labels >= 0)).sum(axis=1) / np.asarray(Y_TEST.sum(axis=1)).ravel()
    assert found.mean() > 0.55
