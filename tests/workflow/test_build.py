"""Estimators from names and settings."""

from __future__ import annotations

import pytest

from longtail.errors import ParameterError
from longtail.objectives import PW, PropensityModel, PWcb
from longtail.workflow.build import build_estimator, parse_propensity, parse_settings


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0.5", 0.5),
        ("3", 3),
        ("true", True),
        ("null", None),
        ("None", None),
        ("[1, 2]", [1, 2]),
        ('"quoted"', "quoted"),
        ("'toml'", "toml"),
        ("plain", "plain"),
        ("1_000", 1000),
        ("a=b", "a=b"),
    ],
)
def test_values_are_json_toml_or_text(text, value):
    assert parse_settings([f"key={text}"]) == {"key": value}


@pytest.mark.parametrize("pair", ["novalue", "=3", " =3"])
def test_a_setting_without_key_or_value_is_refused(pair):
    with pytest.raises(ParameterError, match="key=value"):
        parse_settings([pair])


def test_a_setting_twice_is_refused():
    with pytest.raises(ParameterError, match="twice"):
        parse_settings(["C=1", "C=2"])


def test_settings_reach_the_model_and_its_features():
    model = build_estimator("dismec", text=True, settings={"C": 0.5, "features.ngram_range": [1, 2]}, threads=3)
    assert type(model).__name__ == "TextPipeline"
    assert model.model.C == 0.5
    assert model.model.n_jobs == 3
    assert model.features.ngram_range == (1, 2)


def test_a_weighting_and_its_parts_can_be_set():
    assert build_estimator("dismec", weighting="pw").weighting == "pw"
    settings = {"weighting.beta": 0.99, "weighting.propensity": "wikipedia"}
    model = build_estimator("dismec", weighting="pw-cb", settings=settings)
    assert model.weighting == PWcb(propensity=PropensityModel(0.5, 0.4), beta=0.99)
    model = build_estimator("dismec", weighting="pw-cb:0.5", settings={"weighting.beta": 0.99})
    assert model.weighting == PWcb(beta=0.99, strength=0.5)
    model = build_estimator("dismec", weighting="pw", text=True, settings={"weighting.propensity.A": 0.7})
    assert model.model.weighting == PW(propensity=PropensityModel(0.7, 1.5))


def test_a_base_goes_into_a_wrapper():
    assert type(build_estimator("textpipeline", base="popularity").model).__name__ == "Popularity"
    with pytest.raises(ParameterError, match="wraps no other model"):
        build_estimator("popularity", base="dismec")


def test_wrappers_nest_and_their_parts_can_be_set():
    settings = {"candidates": 7, "base.n_aug": 2, "base.base.C": 3.0}
    model = build_estimator("ranknet", base="taug/bonsai", weighting="pw", settings=settings, threads=3, seed=5)
    assert (type(model).__name__, type(model.base).__name__) == ("RankNet", "Taug")
    inner = model.base.base
    assert (type(inner).__name__, inner.C, inner.n_jobs, inner.weighting) == ("Bonsai", 3.0, 3, "pw")
    assert (model.candidates, model.base.n_aug, model.random_state, inner.random_state) == (7, 2, 5, 5)


def test_a_wrapper_without_a_base_wraps_dismec():
    assert build_estimator("ranknet", settings={"base.C": 2}).base.C == 2


def test_an_ensemble_is_a_list_of_bases():
    settings = {"models.1.base.n_trees": 1, "models.0.C": 0.5, "combine": "ranks"}
    model = build_estimator("ensemble", base="dismec, taug/parabel", weighting="pw-cb", settings=settings, threads=2)
    assert [type(part).__name__ for part in model.models] == ["DiSMEC", "Taug"]
    assert (model.models[0].C, model.models[0].n_jobs, model.models[1].base.n_trees) == (0.5, 2, 1)
    assert [model.models[0].weighting, model.models[1].base.weighting] == ["pw-cb", "pw-cb"]
    with pytest.raises(ParameterError, match=r"models\.2\.C"):
        build_estimator("ensemble", base="dismec,bonsai", settings={"models.2.C": 1})


def test_words_of_python_are_understood():
    assert parse_settings(["a=True", "b=false", "c=None", "d=truth"]) == {
        "a": True,
        "b": False,
        "c": None,
        "d": "truth",
    }


def test_beside_a_model_that_reads_texts_the_others_read_their_features():
    settings = {"models.0.epochs": 2, "models.1.model.C": 2, "models.1.features.min_df": 5}
    model = build_estimator("ensemble", text=True, base="xgrank,dismec", weighting="pw-cb", settings=settings)
    text_model, pipeline = model.models
    assert model.input_kind == "text"
    assert (text_model.epochs, text_model.weighting) == (2, "pw-cb")
    assert (pipeline.model.C, pipeline.features.min_df, pipeline.model.weighting) == (2, 5, "pw-cb")
    nested = build_estimator("propensityrerank", text=True, base="ensemble/dismec,xgrank")
    assert nested.input_kind == "text"


def test_a_wrapper_of_features_goes_behind_the_features_of_texts():
    model = build_estimator("propensityrerank", base="bonsai", text=True, settings={"base.C": 2, "exponent": 1})
    assert type(model).__name__ == "TextPipeline"
    assert (model.model.base.C, model.model.exponent) == (2, 1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"settings": {"CC": 1}}, 'unknown parameter "CC"; did you mean "C"'),
        ({"settings": {"features.mindf": 1}, "text": True}, 'did you mean "features.min_df"'),
        ({"settings": {"C.x": 1}}, "has no parameters"),
        ({"settings": {"weighting.beta": 0.5}, "weighting": "pw"}, 'unknown parameter "weighting.beta"'),
        ({"weighting": "pwcb"}, 'did you mean "pw-cb"'),
        ({"weighting": "pw:2"}, "strength is 2.0, but must be a number from 0"),
        ({"settings": {"weighting.propensity": "wikipedia"}}, "no weighting is chosen"),
        ({"settings": {"weighting.propensity": [1, 2, 3]}, "weighting": "pw"}, "cannot be read"),
    ],
)
def test_mistakes_are_named(arguments, message):
    with pytest.raises(ParameterError, match=message):
        build_estimator("dismec", **arguments)


def test_a_weighting_needs_a_loss():
    with pytest.raises(ParameterError, match="trains no loss"):
        build_estimator("popularity", weighting="pw")


def test_propensities_are_two_numbers_or_a_preset():
    assert parse_propensity("0.5, 0.4") == parse_propensity([0.5, 0.4]) == parse_propensity("wikipedia")
    for wrong in ("0.5,", "1,2,3", "wiki", [1], "a,b"):
        with pytest.raises(ParameterError):
            parse_propensity(wrong)


def test_propensities_can_be_left_out_where_a_model_allows_it():
    assert build_estimator("pfastxml", settings={"propensity": None}).propensity is None
    with pytest.raises(ParameterError, match="PropensityModel"):
        build_estimator("dismec", weighting="pw", settings={"weighting.propensity": None})
