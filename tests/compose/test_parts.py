"""What was fitted is what is saved and loaded: the parts of a wrapper, whatever its parameters became since."""

from __future__ import annotations

import json

import numpy as np
import pytest

import longtail
from compose.planted_tail import planted_tail
from longtail.core import store
from longtail.errors import ModelError

(X, Y), (X_TEST, Y_TEST) = planted_tail(300), planted_tail(60, seed=1)


def assert_loads_as_it_is(model, folder):
    expected = model.predict(X_TEST, k=5)
    model.save(folder)
    loaded = longtail.load_model(folder)
    found = loaded.predict(X_TEST, k=5)
    np.testing.assert_array_equal(found.labels, expected.labels)
    np.testing.assert_array_equal(found.scores, expected.scores)
    assert repr(loaded.get_params()) == repr(model.get_params()), "parameters are for the next fit"
    return loaded


CHANGES = {
    "a parameter": {"base__loss": "logistic"},
    "another base": {"base": longtail.Parabel()},
    "the default base": {"base": None},
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("wrapper", [longtail.PropensityRerank, longtail.RankNet, longtail.Taug])
def test_a_base_changed_after_fit_is_for_the_next_fit(wrapper, change, tmp_path):
    options = {"n_aug": 1} if wrapper is longtail.Taug else {"folds": 2}
    options |= {"blocks": 0} if wrapper is longtail.RankNet else {}
    model = wrapper(base=longtail.DiSMEC(loss="hinge"), **options).fit(X, Y)
    before = model.predict(X_TEST, k=5).scores
    model.set_params(**CHANGES[change])
    np.testing.assert_array_equal(model.predict(X_TEST, k=5).scores, before)
    assert_loads_as_it_is(model, tmp_path / "m")


@pytest.mark.parametrize("combine", ["scores", "ranks"])
def test_models_changed_after_fit_are_for_the_next_fit(combine, tmp_path):
    models = [longtail.DiSMEC(), longtail.Parabel(n_trees=1, max_leaf=5)]
    model = longtail.Ensemble(models=models, combine=combine).fit(X, Y)
    for number, change in enumerate(
        [
            {"models__0__loss": "logistic"},
            {"models": models[::-1]},
            {"models__0": longtail.Popularity()},
            {"models": [*models, longtail.Popularity()]},
        ]
    ):
        loaded = assert_loads_as_it_is(model.set_params(**change), tmp_path / f"m{number}")
        assert [type(part) for part in loaded.models_] == [longtail.DiSMEC, longtail.Parabel]


def test_the_width_of_a_network_inside_is_that_of_the_fit(tmp_path):
    model = longtail.RankNet(base=longtail.GLaS(width=8, epochs=1), blocks=0, held_out=0.3).fit(X, Y)
    loaded = assert_loads_as_it_is(model.set_params(base__width=4), tmp_path / "m")
    assert (loaded.base.width, loaded.base_.width) == (4, 8)


def test_parts_of_parts_are_those_of_the_fit(tmp_path):
    inner = longtail.Ensemble(models=[longtail.DiSMEC(), longtail.Popularity()])
    model = longtail.PropensityRerank(base=longtail.Taug(base=inner, n_aug=1), folds=2).fit(X, Y)
    model.set_params(base__base__models=[longtail.Parabel()], base__tau=0.5)
    loaded = assert_loads_as_it_is(model, tmp_path / "m")
    assert loaded.base_.tau == 0.1
    again = assert_loads_as_it_is(loaded, tmp_path / "again")
    assert [type(part) for part in again.base_.parts_[0].models_] == [longtail.DiSMEC, longtail.Popularity]


def test_a_model_that_does_not_say_what_its_parts_were_is_refused(tmp_path):
    longtail.PropensityRerank(folds=2).fit(X, Y).save(tmp_path / "m")
    file = tmp_path / "m" / store.MANIFEST
    manifest = json.loads(file.read_text())
    del manifest["state"]["learned"]["part0"]["model"]
    file.write_text(json.dumps(manifest | {"sha256": store.json_digest(manifest)}))
    with pytest.raises(ModelError, match="train the model again"):
        longtail.load_model(tmp_path / "m")
