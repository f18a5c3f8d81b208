"""The dial on the weightings, in the models that take one."""

from __future__ import annotations

import numpy as np
import pytest

from contract.planted import planted
from longtail import Bonsai, DiSMEC, Parabel, PfastreXML, PWcb, load_model

DATA = planted(60)
MODELS = {
    "dismec": lambda w: DiSMEC(weighting=w),
    "parabel": lambda w: Parabel(max_leaf=2, n_trees=1, weighting=w),
    "bonsai": lambda w: Bonsai(max_leaf=2, n_children=3, n_trees=1, weighting=w),
    "pfastrexml": lambda w: PfastreXML(tail="linear", n_trees=1, weighting=w),
}


@pytest.mark.parametrize("name", MODELS)
def test_the_ends_of_the_dial_and_its_names(name, tmp_path) -> None:
    def scores(weighting):
        model = MODELS[name](weighting).fit(DATA.X, DATA.Y)
        model.save(tmp_path / "model", overwrite=True)
        loaded = load_model(tmp_path / "model")
        assert loaded.weighting == weighting
        return loaded.predict(DATA.X).scores

    plain, half, full = scores(None), scores("pw-cb:0.5"), scores("pw-cb")
    np.testing.assert_array_equal(scores("pw:0"), plain)
    np.testing.assert_array_equal(scores("pw-cb:1"), full)
    np.testing.assert_array_equal(scores(PWcb(strength=0.5)), half)
    assert not np.array_equal(half, plain)
    assert not np.array_equal(half, full)
