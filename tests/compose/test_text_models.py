"""The modules around a text model: the same calls, texts instead of features."""

from __future__ import annotations

import numpy as np
import pytest

import longtail
from contract.models import ARGUMENTS
from contract.planted import planted
from longtail.data.texts import Texts

DATA, TEST = planted(90), planted(30, seed=1)


def text_model():
    return longtail.AttentionXML(**ARGUMENTS["attentionxml"]())


def linear_model():
    return longtail.TextPipeline(model=longtail.DiSMEC(), features=longtail.TextFeatures(min_df=1))


@pytest.mark.parametrize(
    "wrapped",
    [
        lambda: longtail.RankNet(base=text_model(), folds=2, epochs=1),
        lambda: longtail.Taug(base=text_model(), tau=0.3, n_aug=1),
        lambda: longtail.Ensemble(models=[text_model(), linear_model()]),
    ],
    ids=["RankNet", "Taug", "Ensemble"],
)
def test_a_text_model_is_wrapped_saved_and_loaded(wrapped, tmp_path):
    model = wrapped().fit(Texts.of(list(DATA.texts)), DATA.Y)
    assert model.input_kind == "text"
    found = model.predict(TEST.texts, k=2)
    assert np.asarray(TEST.Y[np.arange(30), found.labels[:, 0]]).mean() > 0.9
    model.save(tmp_path / "m")
    again = longtail.load_model(tmp_path / "m").predict(TEST.texts, k=2)
    np.testing.assert_array_equal(again.labels, found.labels)
    np.testing.assert_array_equal(again.scores, found.scores)
