"""The base class: what it checks before a model sees anything, and what a failed fit leaves."""

from __future__ import annotations

import numpy as np
import pytest

import longtail
from longtail.core.parameters import check_choice, check_positive
from longtail.core.popularity import Popularity
from longtail.errors import DataError, ModelError, NotFittedError, ParameterError

X = np.eye(3)
Y = [[0], [0, 1], [2]]


class Interrupted(Popularity):
    def _fit(self, prepared, run):
        raise KeyboardInterrupt


def test_an_interrupted_fit_does_not_pass_for_a_fitted_model():
    model = Interrupted()
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, Y)
    with pytest.raises(NotFittedError):
        model.predict(X, k=1)


@pytest.mark.parametrize(("X_", "Y_"), [(np.empty((0, 3)), []), (X, [[], [], []])])
def test_nothing_to_learn_from_is_said(X_, Y_):
    with pytest.raises(DataError, match="nothing to learn from"):
        Popularity().fit(X_, Y_)


def test_names_must_fit_the_labels_and_travel_with_the_model(tmp_path):
    with pytest.raises(DataError, match="label_names has 2 entries, but Y has 3 labels"):
        Popularity().fit(X, Y, label_names=["a", "b"])
    for wrong in ("abc", ["a", None, "b"], ["a", 3, "b"], 3):
        with pytest.raises(DataError, match="label_names must be a list of strings"):
            Popularity().fit(X, Y, label_names=wrong)
    with pytest.raises(DataError, match="the label name 'b' occurs twice"):
        Popularity().fit(X, Y, label_names=["b", "a", "b"])
    Popularity().fit(X, Y, label_names=["a", "b", "ü"]).save(tmp_path / "m")
    model = longtail.load_model(tmp_path / "m")
    assert model.label_names_ == ["a", "b", "ü"]
    assert model.label_counts_.tolist() == [2, 1, 1]
    assert model.n_points_ == 3


def test_a_dataset_directory_is_not_a_model(tmp_path):
    with pytest.raises(ModelError, match="not a model directory"):
        longtail.load_model(tmp_path)


def test_parameter_checks_name_the_parameter():
    check_positive(C=1, tol=np.float32(0.1))
    for bad in (0, -1, np.nan, np.inf, "1", True, None):
        with pytest.raises(ParameterError, match="C is"):
            check_positive(C=bad)
    with pytest.raises(ParameterError, match="loss is 'x', but must be one of 'a', 'b'"):
        check_choice("loss", "x", ["a", "b"])
