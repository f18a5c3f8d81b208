"""What every wrapper does for its parts, beyond the contract of estimators."""

from __future__ import annotations

import numpy as np
import pytest

import longtail
from contract.models import TEST, TRAIN, answers, assert_same
from contract.planted import planted
from longtail import Bonsai, DiSMEC, Ensemble, Popularity, PropensityRerank, Taug, TextFeatures, TextPipeline, UnitRows
from longtail.core.checkpoint import Checkpoint
from longtail.core.run import Run
from longtail.errors import OutputError, ParameterError

X, Y = TRAIN.X, TRAIN.Y


def bonsai(**changes):
    return Bonsai(n_children=3, max_leaf=2, **changes)


@pytest.mark.parametrize(
    ("first", "then"),
    [
        (PropensityRerank(base=bonsai(beam=1), folds=2), PropensityRerank(base=bonsai(beam=10), folds=2)),
        (
            Ensemble(models=[PropensityRerank(folds=2, exponent=0.0), DiSMEC()]),
            Ensemble(models=[PropensityRerank(folds=2, exponent=1.0), DiSMEC()]),
        ),
    ],
    ids=["beam", "exponent"],
)
def test_a_resumed_wrapper_does_not_mix_what_its_parts_predicted(first, then, tmp_path):
    """Finished parts of a wrapper's job are predictions, so whatever changes these belongs to the job."""
    checkpoint = Checkpoint(tmp_path / "c", resume=False)
    first.fit(X, Y, run=Run(checkpoint=checkpoint))
    checkpoint._unlock()
    with pytest.raises(OutputError, match="other data, parameters"):
        then.fit(X, Y, run=Run(checkpoint=Checkpoint(tmp_path / "c", resume=True)))


def test_the_outermost_exponent_may_change_on_resume(tmp_path):
    for attempt, exponent in enumerate((0.0, 1.0)):
        checkpoint = Checkpoint(tmp_path / "c", resume=bool(attempt))
        model = PropensityRerank(folds=2, exponent=exponent).fit(X, Y, run=Run(checkpoint=checkpoint))
        checkpoint._unlock()
    assert_same(answers(model), answers(PropensityRerank(folds=2, exponent=1.0).fit(X, Y)))


def texts():
    return TextPipeline(features=TextFeatures(min_df=1))


@pytest.mark.parametrize("changed", [texts(), None, bonsai()], ids=["texts", "none", "other"])
def test_a_base_that_is_exchanged_after_fit_is_for_the_next_fit(changed, tmp_path):
    model = PropensityRerank(folds=2).fit(X, Y)
    before = answers(model)
    model.base = changed
    assert model.input_kind == "features"
    assert_same(model.predict(TEST.X, k=3), before)
    model.save(tmp_path / "m")
    assert_same(longtail.load_model(tmp_path / "m").predict(TEST.X, k=3), before)


def test_a_second_fit_may_read_another_kind_of_input():
    model = PropensityRerank(folds=2).fit(X, Y)
    model.base = texts()
    model.fit(TRAIN.texts, Y)
    assert model.input_kind == "text"
    assert_same(answers(model), answers(PropensityRerank(base=texts(), folds=2).fit(TRAIN.texts, Y)))


@pytest.mark.parametrize("make", [Taug, PropensityRerank, longtail.RankNet])
def test_a_wrapper_of_one_model_takes_no_list(make):
    with pytest.raises(ParameterError, match=r"base is \[.*must be a longtail estimator"):
        make(base=[DiSMEC(), DiSMEC()]).fit(X, Y)


def test_an_ensemble_cannot_turn_to_scores_after_fit():
    model = Ensemble(models=[DiSMEC(), bonsai()], combine="ranks").fit(X, Y)
    with pytest.raises(ParameterError, match="fit again"):
        model.set_params(combine="scores").predict(X, k=1)


def test_options_are_known_before_and_after_fit():
    model = UnitRows(model=PropensityRerank(base=bonsai(), folds=2))
    assert model.options() == {"beam", "exponent", "power"}
    assert model.fit(X, Y).options() == {"beam", "exponent", "power"}
    with pytest.raises(ParameterError, match="takes no alpha; options are beam, exponent, power"):
        model.predict(X, alpha=0.5)
    assert UnitRows(model=Popularity()).fit(X, Y).options() == set()


def test_an_option_leaves_the_shared_model_alone():
    from neural.text.text_models import CLUSTERED, attention, xgrank

    data = planted(60)
    model = xgrank(**(CLUSTERED | {"epochs": 1})).fit(data.texts, data.Y)
    before = model.predict(data.texts, k=4)
    model.predict(data.texts, k=4, length=4, n_retrieved=1)
    assert (model.tokeniser_.length, model.network_.n_retrieved) == (32, 2)
    np.testing.assert_array_equal(model.predict(data.texts, k=4).labels, before.labels)
    tree = attention(epochs=1, clusters_above=4, cluster_size=2, beam=2).fit(data.texts, data.Y)
    tree.predict(data.texts, k=4, beam=1)
    assert tree.network_.beam == 2


def test_an_8_bit_copy_is_made_once_for_all_calls(monkeypatch):
    from longtail.neural.text import model as text_model
    from neural.text.text_models import xgrank

    data = planted(30)
    model = xgrank(epochs=1).fit(data.texts, data.Y)
    made = []
    real = text_model.quantised
    monkeypatch.setattr(text_model, "quantised", lambda network: made.append(1) or real(network))
    for _ in range(3):
        model.predict(data.texts[:2], k=1, quantise="int8")
    assert len(made) == 1
