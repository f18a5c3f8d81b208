"""Parabel and Bonsai from a user's point of view."""

from __future__ import annotations

import numpy as np
import pytest

from longtail import Bonsai, Parabel, load_model
from longtail.core.checkpoint import Checkpoint
from longtail.core.run import Run
from longtail.errors import DataError, ModelError, OutputError, ParameterError, TrainingError
from trees.label.plain import grouped_points

X, Y = grouped_points()
X_TEST, Y_TEST = grouped_points(150, seed=9)
SMALL = {Parabel: {"max_leaf": 4}, Bonsai: {"n_children": 5, "max_leaf": 4}}
each = pytest.mark.parametrize("model", [Parabel, Bonsai])


def make(model, **changes):
    return model(**{**SMALL[model], **changes})


def hits(fitted) -> float:
    best = fitted.predict(X_TEST, k=1).labels[:, 0]
    return float(np.asarray(Y_TEST[np.arange(150), best]).mean())


def assert_same(one, other):
    first, second = one.predict(X_TEST, k=5), other.predict(X_TEST, k=5)
    np.testing.assert_array_equal(first.labels, second.labels)
    np.testing.assert_array_equal(first.scores, second.scores)


@each
@pytest.mark.parametrize("weighting", [None, "pw", "pw-cb"])
def test_planted_labels_are_found(model, weighting):
    assert hits(make(model, weighting=weighting).fit(X, Y)) > 0.97


@pytest.mark.parametrize("representation", ["pifa", "output", "joint"])
def test_bonsai_learns_with_every_representation(representation):
    assert hits(make(Bonsai, representation=representation).fit(X, Y)) > 0.97


@each
def test_scores_are_the_mean_over_trees(model):
    fitted = make(model, n_trees=3, beam=None).fit(X, Y)
    trees = fitted.trees_
    total = np.zeros((150, 24))
    for tree in trees:
        fitted.trees_ = [tree]
        total += fitted.predict(X_TEST, k=24).to_csr(24).toarray()
    fitted.trees_ = trees
    np.testing.assert_allclose(fitted.predict(X_TEST, k=24).to_csr(24).toarray(), total / 3, rtol=1e-5)


@each
def test_weighting_raises_the_scores_of_rare_labels_more(model):
    """PW multiplies the positives' loss by 2/p - 1: margins of rare labels gain more than those of frequent ones."""
    plain = make(model, beam=None).fit(X, Y)
    weighted = make(model, beam=None, weighting="pw").fit(X, Y)
    gain = (weighted.predict(X, k=24).to_csr(24) - plain.predict(X, k=24).to_csr(24)).toarray()
    mean_gain = (gain * Y.toarray()).sum(axis=0) / plain.label_counts_
    by_count = np.argsort(plain.label_counts_)
    assert mean_gain[by_count[:6]].mean() > mean_gain[by_count[-6:]].mean() + 0.01


@each
def test_trees_are_added_to_and_removed_from_a_saved_model(model, tmp_path):
    names = [f"label {i}" for i in range(24)]
    make(model, n_trees=2).fit(X, Y, label_names=names).save(tmp_path / "m")
    loaded = load_model(tmp_path / "m").add_tree(X, Y)
    assert_same(loaded, make(model, n_trees=3).fit(X, Y))  # as if all three had been trained at once
    loaded.save(tmp_path / "m", overwrite=True)
    again = load_model(tmp_path / "m")
    assert again.label_names_ == names
    assert len(again.trees_) == 3
    assert_same(again, loaded)
    again.remove_tree(0).add_tree(X, Y)
    assert again.n_trained_ == 4
    assert_same(again.remove_tree(2), make(model, n_trees=3).fit(X, Y).remove_tree(0))
    for wrong in (-1, 2, True, "0"):
        with pytest.raises(ParameterError, match="numbered from 0 to 1"):
            again.remove_tree(wrong)
    with pytest.raises(ParameterError, match="cannot remove the last tree"):
        again.remove_tree(0).remove_tree(0)


@each
def test_a_tree_of_other_data_must_fit_the_model(model):
    fitted = make(model).fit(X, Y)
    with pytest.raises(DataError, match="was fitted with"):
        fitted.add_tree(X[:, :5], Y)
    with pytest.raises(DataError, match="24 are expected"):
        fitted.add_tree(X, Y[:, :20])
    assert len(fitted.trees_) == 3


class Stop(Exception):
    pass


class StopAt:
    """Progress that stops training when a tree begins."""

    def __init__(self, tree: int) -> None:
        self.task = f"training tree {tree}"

    def start(self, task: str, total: int) -> None:
        if task == self.task:
            raise Stop

    def advance(self, amount: int = 1) -> None: ...

    def finish(self) -> None: ...


@each
def test_an_interrupted_training_goes_on_where_it_was(model, tmp_path, monkeypatch):
    with pytest.raises(Stop):
        make(model).fit(X, Y, run=Run(StopAt(3), Checkpoint(tmp_path / "c", resume=False)))
    trained = []
    real = model._trained_tree
    monkeypatch.setattr(model, "_trained_tree", lambda self, *a: trained.append(a[3]) or real(self, *a))
    checkpoint = Checkpoint(tmp_path / "c", resume=True)
    resumed = make(model, n_jobs=1, beam=7).fit(X, Y, run=Run(checkpoint=checkpoint)).set_params(beam=10)
    assert trained == [2]
    monkeypatch.undo()
    assert_same(resumed, make(model).fit(X, Y))
    checkpoint.clear()  # as the command line does when the model is saved


@each
def test_a_checkpoint_of_another_training_is_refused(model, tmp_path):
    with pytest.raises(Stop):
        make(model).fit(X, Y, run=Run(StopAt(2), Checkpoint(tmp_path / "c", resume=False)))
    with pytest.raises(OutputError, match="other data, parameters"):
        make(model, C=2.0).fit(X, Y, run=Run(checkpoint=Checkpoint(tmp_path / "c", resume=True)))


@each
@pytest.mark.parametrize(
    "wrong",
    [
        {"beam": 0}, {"beam": 1.5}, {"n_trees": 0}, {"max_leaf": 0}, {"C": 0}, {"bias": -1}, {"prune": -0.1},
        {"tol": 0}, {"max_passes": 0}, {"n_jobs": 0}, {"random_state": -1}, {"power": 0}, {"power": 5}, {"power": 2.5},
    ],
    ids=str,
)  # fmt: skip
def test_wrong_parameters_are_named(model, wrong):
    with pytest.raises(ParameterError, match=f"{next(iter(wrong))} is"):
        make(model, **wrong).fit(X, Y)


@each
def test_the_unbiased_weighting_is_refused_with_the_reason(model):
    with pytest.raises(ParameterError, match="not bounded below"):
        make(model, weighting="unbiased").fit(X, Y)


@each
def test_a_wrong_parameter_set_after_fit_is_named(model):
    fitted = make(model).fit(X, Y)
    with pytest.raises(ParameterError, match="beam is 0"):
        fitted.set_params(beam=0).predict(X, k=1)
    with pytest.raises(ParameterError, match="n_jobs is 0"):
        fitted.set_params(beam=3, n_jobs=0).predict(X, k=1)


def test_bonsai_names_its_own_wrong_parameters():
    for wrong in ({"n_children": 1}, {"max_depth": 0}, {"representation": "words"}):
        with pytest.raises(ParameterError, match=f"{next(iter(wrong))} is"):
            make(Bonsai, **wrong).fit(X, Y)


@pytest.mark.parametrize("wrong", [1, 3, 12, 2.0, True], ids=str)
def test_parabel_takes_powers_of_two_as_children(wrong):
    with pytest.raises(ParameterError, match="n_children is"):
        make(Parabel, n_children=wrong).fit(X, Y)


def test_parabel_learns_with_wide_nodes_too():
    binary, wide = (make(Parabel, n_trees=1, n_children=np.int64(n)).fit(X, Y) for n in (2, 4))
    assert wide.trees_[0].n_nodes < binary.trees_[0].n_nodes
    assert hits(wide) > 0.97
    assert_same(wide, make(Parabel, n_trees=1, n_children=4, n_jobs=1).fit(X, Y))


@each
def test_the_power_is_saved_and_2_in_models_that_do_not_say_it(model):
    fitted = make(model, n_trees=1, power=4).fit(X, Y)
    state, loaded = fitted._get_state(), make(model)
    loaded._set_state(state)
    assert loaded.power == 4
    state.values["power"] = 10**9  # would take for ever
    with pytest.raises(ModelError, match="power is 1000000000"):
        loaded._set_state(state)
    del state.values["power"]
    loaded._set_state(state)
    assert loaded.power == 2


def test_bonsai_takes_fewer_labels_than_children():
    best = Bonsai(n_children=100, max_leaf=4).fit(X, Y).predict(X, k=1)
    as_many = Bonsai(n_children=Y.shape[1], max_leaf=4).fit(X, Y).predict(X, k=1)
    np.testing.assert_array_equal(best.labels, as_many.labels)
    one_leaf = Bonsai().fit(X, Y)
    assert one_leaf.predict(X, k=Y.shape[1]).labels.min() == 0


@each
def test_numbers_that_float32_cannot_work_with_are_refused(model):
    with pytest.raises(TrainingError, match=r"tree node \d+, child \d+ is weighted"):
        make(model, C=1e30).fit(X, Y)
    with pytest.raises(DataError, match="scale rows to unit length"):
        make(model).fit(X * np.float32(1e15), Y)


@each
def test_data_without_labels_is_refused(model):
    with pytest.raises(DataError, match="no point has a label"):
        make(model).fit(X, Y * 0)


def test_one_label_alone_is_learned():
    one = Parabel(n_trees=1).fit(X, Y[:, :1])
    assert (one.predict(X, k=1).labels == 0).all()


@each
def test_points_without_any_features_are_refused(model):
    with pytest.raises(DataError, match="X has no features"):
        make(model).fit(X[:, :0], Y)
