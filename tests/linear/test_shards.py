"""Classifiers in several shards: the same model as in one, never held as a whole, and checked like any other."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from linear.twins import synthetic
from longtail import DiSMEC, load_model
from longtail.core.predictions import Predictions
from longtail.core.run import Run
from longtail.core.state import State
from longtail.core.workspace import Workspace
from longtail.errors import ModelError
from longtail.linear import rare, shards
from longtail.linear.shards import Shards, merged

X, Y = synthetic()
Y = sparse.csr_matrix(sparse.hstack([Y, Y[:, :3], sparse.csr_matrix((Y.shape[0], 2))], dtype=np.float32))


@pytest.fixture
def small_shards(monkeypatch):
    monkeypatch.setattr(shards, "_MOST_CLASSIFIERS", 10)
    monkeypatch.setattr(rare, "GROUP", 8)
    monkeypatch.setattr(rare, "LEAST_WORK", 0)
    monkeypatch.setattr(rare, "LEAST_SHARE", 0)


def in_one() -> DiSMEC:
    return DiSMEC(n_jobs=1).fit(X, Y)


@pytest.fixture
def in_several(small_shards):
    model = in_one()
    assert len(model._shards.parts) > 3
    return model


def test_several_shards_hold_the_weights_of_one_and_predict_the_same(monkeypatch, small_shards):
    several = in_one()
    monkeypatch.setattr(shards, "_MOST_CLASSIFIERS", 1 << 16)
    one = in_one()
    assert len(one._shards.parts) == 1 < len(several._shards.parts)
    assert all(0 < part.intercepts.size <= 16 for part in several._shards.parts)
    np.testing.assert_array_equal(several.weights_.toarray(), one.weights_.toarray())
    np.testing.assert_array_equal(several.intercept_, one.intercept_)
    np.testing.assert_array_equal(several.gaps_, one.gaps_)
    for rows, k in ((X, 5), (X[:1], 3), (X[:20], Y.shape[1])):
        found, wanted = several.predict(rows, k=k), one.predict(rows, k=k)
        np.testing.assert_allclose(found.scores, wanted.scores, rtol=1e-5, atol=1e-6)
        np.testing.assert_array_equal(np.sort(found.labels), np.sort(wanted.labels))
    for label in (0, 1, 50):
        assert several.explain(X[:1], label).score == one.explain(X[:1], label).score


def test_one_point_and_many_have_the_same_bits(in_several):
    together = in_several.predict(X[:6], k=7)
    for i in range(6):
        alone = in_several.predict(X[i], k=7)
        assert alone.scores.tobytes() == together.scores[i].tobytes()
        assert alone.labels.tobytes() == together.labels[i].tobytes()


@pytest.mark.parametrize("mmap", [True, False])
def test_saved_shards_load_and_predict_the_same(in_several, tmp_path, mmap):
    in_several.save(tmp_path / "model")
    loaded = load_model(tmp_path / "model", mmap=mmap)
    assert len(loaded._shards.parts) == len(in_several._shards.parts)
    assert loaded.predict(X, k=5).scores.tobytes() == in_several.predict(X, k=5).scores.tobytes()


def test_in_files_of_a_workspace_the_model_is_the_same(small_shards, tmp_path, monkeypatch):
    monkeypatch.setattr("longtail.core.workspace._LEAST", 1)
    mapped = DiSMEC(n_jobs=1).fit(X, Y, run=Run(workspace=Workspace(tmp_path)))
    assert not list(tmp_path.iterdir())  # the files have no names
    for part in mapped._shards.parts:
        assert isinstance(part.values.base, np.memmap) or isinstance(part.values, np.memmap)
    wanted = in_one()
    for one, other in zip(mapped._shards.parts, wanted._shards.parts, strict=True):
        assert all(getattr(one, name).tobytes() == getattr(other, name).tobytes() for name in one.__dataclass_fields__)


def test_merging_keeps_the_best_ties_by_id_padding_last():
    first = Predictions(np.array([[4, 2, -1]]), np.array([[2.0, 1.0, -np.inf]]))
    second = Predictions(np.array([[3, 9, 1]]), np.array([[2.0, 1.0, 1.0]])[:, [0, 2, 1]])
    found = merged([first, second], 4)
    assert found.labels.tolist() == [[3, 4, 1, 2]]
    assert merged([first, first.without(np.array([True]))], 5).labels.tolist() == [[4, 2, -1, -1, -1]]


def changed(model: DiSMEC, change) -> State:
    state = model._shards.to_state()
    change(state)
    return state


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda state: state.values.update(shards=0), "shards is 0, but must be a whole number of at least 1"),
        (lambda state: state.values.update(shards=len(state.arrays)), "shard-000.. is missing"),
        (lambda state: state.values.update(shards=10**12), "shards is 1000000000000, but there are .. arrays"),
        (lambda state: state.values.update(shards="2"), "must be a whole number"),
        (lambda state: state.values.pop("shard-00001"), "shard-00001 is missing"),
        (lambda state: state.arrays.pop("shard-00001/ptr"), "the array ptr is missing"),
        (lambda state: state.arrays.update({"shard-00001/of_label": np.zeros(3, np.int32)}), "of_label"),
        (
            lambda state: state.arrays.update({"shard-00001/of_label": state.arrays["shard-00000/of_label"]}),
            "has classifiers in several shards|of_label",
        ),
    ],
)
def test_shards_that_do_not_fit_together_are_refused(in_several, change, said):
    state = changed(in_several, change)
    with pytest.raises(ModelError, match=said):
        Shards.from_state(state, X.shape[1], Y.shape[1]).check_numbers()
