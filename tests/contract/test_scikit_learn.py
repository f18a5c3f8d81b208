"""scikit-learn's habits, kept by every estimator."""

from __future__ import annotations

import inspect

import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline

from contract.models import (
    GRIDS,
    TEST,
    TRAIN,
    answers,
    assert_same,
    assert_well_formed,
    every,
    fitted,
    make,
    shared,
)
from longtail.core import registry
from longtail.errors import NotFittedError, ParameterError
from longtail.metrics import scorer


@every
def test_the_constructor_takes_keywords_only_and_only_stores(name):
    cls = registry.estimator_class(name)
    model = make(name)
    for parameter in cls._get_param_names():
        assert inspect.signature(cls).parameters[parameter].kind is inspect.Parameter.KEYWORD_ONLY
        marker = object()  # no constructor may look at its values: clone and set_params rely on it
        assert getattr(cls(**{parameter: marker}), parameter) is marker
    assert cls(**model.get_params(deep=False)).get_params(deep=False) == model.get_params(deep=False)


@every
def test_a_clone_is_unfitted_and_learns_the_same(name):
    model = shared(name)
    copy = clone(model)
    assert repr(copy.get_params()) == repr(model.get_params())
    with pytest.raises(NotFittedError):
        answers(copy)
    copy.fit(TRAIN.inputs(copy.input_kind), TRAIN.Y)
    assert_same(answers(copy), answers(model))


@every
def test_it_works_as_the_last_step_of_a_pipeline(name):
    model = make(name)
    first = ("normalise", Normaliser()) if model.input_kind == "features" else ("same", "passthrough")
    pipeline = Pipeline([first, ("model", model)])
    pipeline.fit(TRAIN.inputs(model.input_kind), TRAIN.Y)
    predictions = pipeline.predict(TEST.inputs(model.input_kind), k=3)
    assert_well_formed(predictions, 30, 3)
    # Normalised rows differ in their last bits, and what a tree does with those is chance: the same rows for both.
    same = Normaliser().fit_transform if model.input_kind == "features" else list
    alone = make(name).fit(same(TRAIN.inputs(model.input_kind)), TRAIN.Y)
    assert_same(predictions, alone.predict(same(TEST.inputs(model.input_kind)), k=3))


def Normaliser():
    from sklearn.preprocessing import Normalizer

    return Normalizer()


@every
def test_a_grid_search_by_psp_works(name):
    model = make(name)
    search = GridSearchCV(model, GRIDS.get(name, {}), scoring=scorer("psp@3"), cv=2, error_score="raise")
    search.fit(TRAIN.inputs(model.input_kind), TRAIN.Y)
    assert 0 <= search.best_score_ <= 1
    assert_well_formed(search.best_estimator_.predict(TEST.inputs(model.input_kind), k=3), 30, 3)


@every
def test_a_model_that_trains_a_loss_takes_every_weighting(name):
    model = make(name)
    for key in [key for key in model.get_params() if key.split("__")[-1] == "weighting"]:
        for weighting in (None, "pw", "pw-cb"):
            assert_well_formed(answers(fitted(name, **{key: weighting})), 30, 3)
        with pytest.raises(ParameterError, match="weighting"):
            fitted(name, **{key: "nonsense"})
