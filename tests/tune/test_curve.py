"""What one fit reaches: curves of thresholds, checked against label sets made one by one."""

from __future__ import annotations

import numpy as np
import pytest

import longtail
from longtail.core.calibrated import answers_of, fit_calibration, unseen_probabilities
from longtail.core.sets import sorted_sets
from longtail.errors import ParameterError
from longtail.metrics import evaluate, evaluate_sets
from longtail.tune.candidate import Candidate
from longtail.tune.curve import THRESHOLDS, curve_of
from longtail.tune.objectives import goodness, is_about_rare_labels, of_rankings, of_sets, spelt
from longtail.tune.points import Part

DATA = longtail.make_longtail(n_points=600, n_features=300, n_labels=40, n_test_points=500)
PART = Part(DATA.train.X, DATA.train.Y, DATA.test.X, DATA.test.Y, None, longtail.PropensityModel())
OBJECTIVES = ["micro-F1", "P@1", "macro-R", "example-P"]


def test_sets_of_a_model_that_calibrated_itself_are_those_of_predict_sets():
    model = longtail.PropensityRerank(base=longtail.DiSMEC(), candidates=20).fit(DATA.train.X, DATA.train.Y)
    assert model.own_calibration() is not None
    curve = curve_of(model, DATA.test.X, PART, OBJECTIVES)
    assert [point["threshold"] for point in curve] == list(THRESHOLDS)
    ranking = evaluate(model.predict(DATA.test.X, k=40), DATA.test.Y, ks=(1,))
    for point in curve[::5]:
        sets = evaluate_sets(model.predict_sets(DATA.test.X, threshold=point["threshold"]), DATA.test.Y)
        expected = [sets["micro-F1"], ranking["P@1"], sets["macro-R"], sets["example-P"]]
        np.testing.assert_allclose([point["metrics"][name] for name in OBJECTIVES], expected, atol=1e-9)
        assert "exponent" not in point


def test_points_teach_nothing_about_themselves():
    model = longtail.DiSMEC().fit(DATA.train.X, DATA.train.Y)
    curve = curve_of(model, DATA.test.X, PART, ["micro-F1"])
    unseen = answers_of(model, DATA.test.X, DATA.test.Y, 40)
    likely = unseen_probabilities(model, unseen)
    first, second = unseen.rows_of_halves()
    assert sorted([*first, *second]) == list(range(500))
    # The half that judges a calibration gets the probabilities of the half that teaches it.
    np.testing.assert_array_equal(likely[second], fit_calibration(model, unseen)(model, unseen.found[second]))
    for point in curve[::7]:
        found = sorted_sets(type(unseen.found)(unseen.found.labels, likely), point["threshold"])
        assert point["metrics"]["micro-F1"] == pytest.approx(evaluate_sets(found, DATA.test.Y)["micro-F1"])
    reached = [point["metrics"]["micro-F1"] for point in curve]
    assert max(reached) > reached[0] + 10
    assert max(reached) > reached[-1] + 10


def test_beams_have_thresholds_of_their_own():
    model = longtail.Bonsai(max_leaf=5, n_children=3, random_state=0).fit(DATA.train.X, DATA.train.Y)
    curve = curve_of(model, DATA.test.X, PART, ["example-F1"])
    assert {point["beam"] for point in curve} == {5, 10, 20, 40}
    assert len(curve) == 4 * len(THRESHOLDS)
    assert {point.get("beam") for point in curve_of(model, DATA.test.X, PART, ["example-F1"], [])} == {None}


def test_a_threshold_belongs_to_the_evaluation_and_not_to_the_model():
    recipe = Candidate("bonsai", {"C": 2.0}).recipe({"metrics": {}, "beam": 20, "threshold": 0.3}, {}, [0.5, 1.5])
    assert recipe["evaluate"] == {"propensity": [0.5, 1.5], "threshold": 0.3}
    assert recipe["model"] == {"name": "bonsai", "parameters": {"C": 2.0, "beam": 20}}
    Candidate("bonsai").estimator(point={"metrics": {}, "beam": 20, "threshold": 0.3}).check_parameters()


def test_metrics_of_sets_have_no_cut_off_and_those_of_rankings_have_one():
    assert [spelt(name) for name in ("MACRO-f1", "macro-f1@5", "psp@3")] == ["macro-F1", "macro-F1@5", "PSP@3"]
    assert of_sets(["macro-F1", "macro-F1@5"]) == ["macro-F1"]
    assert of_rankings(["macro-F1", "macro-F1@5"]) == ["macro-F1@5"]
    about = [name for name in ("micro-F1", "macro-R", "macro-R@5", "P@1", "PSP@1") if is_about_rare_labels(name)]
    assert about == ["macro-R", "macro-R@5", "PSP@1"]
    assert (goodness("micro-F1", 3.0), goodness("abandonment@1", 3.0)) == (3.0, -3.0)
    with pytest.raises(ParameterError, match=r"unknown metric 'F1'.*of label sets: micro-P"):
        spelt("F1")
