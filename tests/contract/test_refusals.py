"""What every estimator refuses, and that it leaves its inputs alone."""

from __future__ import annotations

import numpy as np
import pytest

from contract.models import (
    SCALING,
    TEST,
    TRAIN,
    answers,
    assert_well_formed,
    every,
    every_feature_model,
    every_text_model,
    make,
    shared,
)
from contract.planted import N_LABELS, planted
from longtail.errors import DataError, NotFittedError, ParameterError


@every
@pytest.mark.parametrize("k", [0, -1, 1.5, "3"])
def test_a_k_that_makes_no_sense_is_refused(name, k):
    with pytest.raises(ParameterError, match="k "):
        answers(shared(name), k=k)


@every
def test_predicting_or_saving_before_fitting_is_refused(name, tmp_path):
    model = make(name)
    with pytest.raises(NotFittedError, match="not fitted"):
        answers(model)
    with pytest.raises(NotFittedError, match="not fitted"):
        model.save(tmp_path / "m")
    assert list(tmp_path.iterdir()) == []


@every_feature_model
def test_features_that_cannot_be_used_are_refused(name):
    model = shared(name)
    with pytest.raises(DataError, match="was fitted with"):
        model.predict(TEST.X[:, :5], k=1)
    broken = TEST.X.toarray()
    broken[3, 0] = np.nan
    with pytest.raises(DataError, match="point 3"):
        model.predict(broken, k=1)
    with pytest.raises(DataError, match="X must"):
        model.predict(TEST.texts, k=1)


@every_text_model
def test_what_is_not_a_text_is_refused(name):
    with pytest.raises(DataError, match="text"):
        make(name).fit(TRAIN.X, TRAIN.Y)
    with pytest.raises(DataError, match="1"):
        make(name).fit([TRAIN.texts[0], 5, *TRAIN.texts[2:]], TRAIN.Y)


@every
def test_points_and_labels_must_be_as_many(name):
    model = make(name)
    with pytest.raises(DataError, match="X has 90 points, but Y has 89"):
        model.fit(TRAIN.inputs(model.input_kind), TRAIN.Y[:-1])


@every
def test_data_without_any_label_is_refused(name):
    model = make(name)
    with pytest.raises(DataError, match="no point has a label"):
        model.fit(TRAIN.inputs(model.input_kind), np.zeros((90, N_LABELS)))
    with pytest.raises(NotFittedError):
        answers(model)


@every_feature_model
@pytest.mark.parametrize("value", [3e38, -1e11])
def test_features_too_large_to_be_squared_are_refused_or_scaled(name, value):
    broken = TRAIN.X.toarray()
    broken[3, 0] = value
    if name in SCALING:
        assert_well_formed(make(name).fit(broken, TRAIN.Y).predict(broken, k=2), 90, 2)
        return
    with pytest.raises(DataError, match=r"point 3 .*scale rows"):
        make(name).fit(broken, TRAIN.Y)
    with pytest.raises(DataError, match=r"point 3 .*scale rows"):
        shared(name).predict(broken, k=1)


@every
def test_fit_and_predict_leave_their_inputs_alone(name):
    data, test = planted(90), planted(30, seed=1)
    shuffled = data.X.copy()  # rows in an odd order, which a careless model would sort in place
    for start, end in zip(shuffled.indptr[:-1], shuffled.indptr[1:], strict=True):
        shuffled.indices[start:end] = shuffled.indices[start:end][::-1].copy()
    shuffled.has_sorted_indices = False
    model = make(name)
    inputs = data.texts if model.input_kind == "text" else shuffled
    before = [a.copy() for a in (shuffled.data, shuffled.indices, shuffled.indptr, data.Y.data, data.Y.indices)]
    parameters = repr(model.get_params())
    model.fit(inputs, data.Y)
    answers(model, test)
    after = [shuffled.data, shuffled.indices, shuffled.indptr, data.Y.data, data.Y.indices]
    for old, new in zip(before, after, strict=True):
        np.testing.assert_array_equal(old, new)
    assert data.texts == planted(90).texts
    assert (test.X != planted(30, seed=1).X).nnz == 0
    assert repr(model.get_params()) == parameters, "fit changes no parameter"


@every
def test_relevances_are_used_or_refused(name):
    """Y with numbers between 0 and 1: a model that says that it takes relevances is another one with them."""
    model, Y = make(name), TRAIN.Y.copy()
    Y.data[::2] = 0.25
    X = TRAIN.texts if model.input_kind == "text" else TRAIN.X
    if not model.takes_relevances():
        with pytest.raises(DataError, match=r"Y contains relevances of labels, such as 0\.25"):
            model.fit(X, Y)
        return
    assert (answers(model.fit(X, Y)).scores != answers(shared(name)).scores).any()
    assert 0 <= model.score(X, Y) <= 1
