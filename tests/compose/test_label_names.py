"""Label names reach the estimators inside, in training, for points kept unseen, and after loading."""

from __future__ import annotations

import json

import numpy as np
import pytest
from sklearn.base import clone

import longtail
from compose.bases import Witness
from compose.planted_tail import N_LABELS, planted_tail
from contract.models import ARGUMENTS
from contract.planted import planted
from longtail.core import store

(X, Y), (X_TEST, Y_TEST) = planted_tail(300), planted_tail(60, seed=1)
NAMES = [f"label {i}" for i in range(N_LABELS)]
PARENTS = {name: None if i < 3 else NAMES[i % 3] for i, name in enumerate(NAMES)}


class Named(Witness):
    """Remembers the names of every training."""

    names: list[list[str] | None] = []

    def _fit(self, prepared, run):
        Named.names.append(self.label_names_)
        super()._fit(prepared, run)


@pytest.fixture(autouse=True)
def _fresh(monkeypatch):
    monkeypatch.setattr(Named, "names", [])
    monkeypatch.setattr(Witness, "fits", [])


@pytest.mark.parametrize(
    ("model", "trainings"),
    [
        (longtail.PropensityRerank(base=Named(), folds=2), 3),
        (longtail.RankNet(base=Named(), held_out=0.2, blocks=0), 2),
        (longtail.Ensemble(models=[Named(), Named()], held_out=0.2), 4),
        (longtail.Ensemble(models=[Named()], combine="ranks"), 1),
    ],
)
@pytest.mark.parametrize("names", [NAMES, None])
def test_every_training_of_a_part_is_given_the_names(model, trainings, names):
    model.fit(X, Y, label_names=names)
    assert Named.names == [names] * trainings


def test_a_hierarchy_by_name_works_in_a_wrapper_as_it_does_alone(tmp_path):
    base = longtail.Parabel(n_trees=1, hierarchy=PARENTS)
    models = [longtail.PropensityRerank(base=base, folds=2), longtail.Ensemble(models=[base], held_out=0.3)]
    alone = clone(base).fit(X, Y, label_names=NAMES).predict(X_TEST, k=3)
    for i, model in enumerate(models):
        model.fit(X, Y, label_names=NAMES).save(tmp_path / f"m{i}")
        loaded = longtail.load_model(tmp_path / f"m{i}")
        inside = loaded.base_ if i == 0 else loaded.models_[0]
        np.testing.assert_array_equal(inside.predict(X_TEST, k=3).scores, alone.scores)
        np.testing.assert_array_equal(loaded.predict(X_TEST, k=3).scores, model.predict(X_TEST, k=3).scores)


def test_words_of_names_take_part_in_a_wrapper_as_they_do_alone():
    data, test = planted(60), planted(20, seed=1)
    names = [f"label{i}" for i in range(data.Y.shape[1])]
    base = longtail.XGRank(**ARGUMENTS["xgrank"]())
    assert base.label_text
    named, unnamed = (
        clone(base).fit(data.texts, data.Y, label_names=n).predict(test.texts, k=2) for n in (names, None)
    )
    assert not np.array_equal(named.scores, unnamed.scores)
    model = longtail.Ensemble(models=[base], combine="ranks").fit(data.texts, data.Y, label_names=names)
    np.testing.assert_array_equal(model.models_[0].predict(test.texts, k=2).scores, named.scores)


@pytest.mark.parametrize("merge", ["raw", "calibrated"])
def test_head_and_tail_are_given_their_own_names(merge):
    few = X[:, :], Y.copy().tolil()
    few[1][:30] = 0  # points without any label, so that both models have "none of these"
    model = longtail.Taug(base=Named(), tau=0.2, n_aug=1, merge=merge, random_state=1)
    model.fit(few[0], few[1].tocsr(), label_names=NAMES)
    head, tail = Named.names[-2:]
    assert head == [*(NAMES[i] for i in model.head_), "none of these"]
    assert tail == [*(NAMES[i] for i in model.tail_), "none of these"]
    assert len(Named.names) == (2 if merge == "raw" else 4)
    assert None not in Named.names


def test_none_of_these_is_never_the_name_of_a_label():
    taken = ["none of these", "none of these, 2", *NAMES[2:]]
    longtail.Taug(base=Named(), tau=0.2).fit(X, Y, label_names=taken)
    tail = Named.names[1]
    assert len(set(tail)) == len(tail)
    assert tail[-1] not in taken
    Named.names.clear()
    longtail.Taug(base=Named(), tau=0.2, points="own").fit(X, Y, label_names=taken)
    assert {*Named.names[0], *Named.names[1]} == set(taken), "no such label, no such name"


def test_names_are_there_after_loading_and_on_disk_once(tmp_path):
    inner = longtail.Ensemble(models=[longtail.DiSMEC(), longtail.Popularity()])
    model = longtail.PropensityRerank(base=longtail.Taug(base=inner, n_aug=1), folds=2)
    model.fit(X, Y, label_names=NAMES).save(tmp_path / "m")
    loaded = longtail.load_model(tmp_path / "m")
    assert loaded.label_names_ == loaded.base_.label_names_ == NAMES
    for before, after in zip(model.base_.parts_, loaded.base_.parts_, strict=True):
        assert after.label_names_ == before.label_names_
        assert after.models_[0].label_names_ == before.label_names_
    text = (tmp_path / "m" / store.MANIFEST).read_text()
    assert text.count(json.dumps(NAMES[7])) == 1


def test_a_fitted_base_keeps_names_of_its_own(tmp_path):
    own = [f"own {i}" for i in range(N_LABELS)]
    for number, names in enumerate((NAMES, None)):
        base = longtail.DiSMEC().fit(X, Y, label_names=own)
        model = longtail.PropensityRerank(base=base, prefit=True).fit(X_TEST, Y_TEST, label_names=names)
        model.save(tmp_path / f"m{number}")
        loaded = longtail.load_model(tmp_path / f"m{number}")
        assert (loaded.label_names_, loaded.base_.label_names_) == (names, own)
    base = longtail.DiSMEC().fit(X, Y)
    longtail.Ensemble(models=[base], prefit=True).fit(X_TEST, Y_TEST, label_names=NAMES).save(tmp_path / "unnamed")
    assert longtail.load_model(tmp_path / "unnamed").models_[0].label_names_ is None
