"""Taug: who learns from what, how scores meet, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone

import longtail
from compose.bases import Witness
from compose.planted_tail import HEAD, TAIL, planted_tail
from contract.planted import planted
from longtail.compose.taug import head_and_tail
from longtail.core.checkpoint import Checkpoint
from longtail.core.run import Run
from longtail.errors import DataError, ParameterError

(X, Y), (X_TEST, Y_TEST) = planted_tail(600), planted_tail(300, seed=1)
TAU = HEAD / (HEAD + TAIL) + 0.01


@pytest.fixture(autouse=True)
def _fresh_witness(monkeypatch):
    monkeypatch.setattr(Witness, "fits", [])


@pytest.mark.parametrize(
    ("counts", "tau", "head"),
    [
        ([5, 9, 1, 3], 0.5, [0, 1]),
        ([5, 5, 5, 5], 0.5, [0, 1]),  # ties go to the lower id
        ([1, 2, 3, 4], 0.01, [3]),  # at least one label each
        ([1, 2, 3, 4], 0.99, [1, 2, 3]),
        ([0, 0, 7, 0], 0.3, [2]),
    ],
)
def test_the_head_is_the_share_with_most_points(counts, tau, head):
    found, tail = head_and_tail(np.array(counts), tau)
    assert found.tolist() == head
    assert sorted([*found, *tail]) == list(range(4))


def test_only_points_with_tail_labels_are_copied():
    carriers = int((Y[:, HEAD:].sum(axis=1) > 0).sum())
    longtail.Taug(base=Witness(), tau=TAU, n_aug=3, merge="raw").fit(X, Y)
    assert Witness.fits == [600, 600 + 3 * carriers]
    Witness.fits.clear()
    longtail.Taug(base=Witness(), tau=TAU, n_aug=3, merge="raw", points="own").fit(X, Y)
    assert Witness.fits == [600, 4 * carriers], "every point has a head label"


def test_without_copies_linear_models_of_all_points_are_those_of_the_base():
    # One-vs-rest labels do not know of each other: decoupled, they are learned as before.
    base = longtail.DiSMEC(tol=1e-4, max_passes=1000, prune=0)
    together = clone(base).fit(X, Y)
    apart = longtail.Taug(base=base, tau=TAU, n_aug=0, merge="raw").fit(X, Y)
    one, other = together.predict(X_TEST, k=4), apart.predict(X_TEST, k=4)
    np.testing.assert_allclose(one.scores, other.scores, atol=0.01)
    assert (one.labels[:, 0] == other.labels[:, 0]).mean() > 0.99


def test_an_interrupted_calibration_is_resumed_with_the_same_result(tmp_path, monkeypatch):
    model = longtail.Taug(base=Witness(), tau=TAU, n_aug=1, merge="calibrated", held_out=None, folds=2)
    expected = clone(model).fit(X, Y).predict(X_TEST, k=4)
    monkeypatch.setattr(Witness, "fits", [])
    monkeypatch.setattr(Witness, "fails_at", 3)  # within the second fold
    checkpoint = Checkpoint(tmp_path / "m.partial", resume=False)
    with pytest.raises(KeyboardInterrupt):
        clone(model).fit(X, Y, run=Run(checkpoint=checkpoint))
    checkpoint._unlock()
    monkeypatch.setattr(Witness, "fits", [])
    monkeypatch.setattr(Witness, "fails_at", None)
    again = Checkpoint(tmp_path / "m.partial", resume=True)
    found = clone(model).fit(X, Y, run=Run(checkpoint=again)).predict(X_TEST, k=4)
    assert len(Witness.fits) == 4, "both models of the second fold, and both of all points"
    np.testing.assert_array_equal(found.labels, expected.labels)
    np.testing.assert_array_equal(found.scores, expected.scores)
    again.clear()
    assert not any(tmp_path.iterdir())


def test_copies_lift_the_tail():
    def recall(model):
        found = model.fit(X, Y).predict(X_TEST, k=1).to_csr(HEAD + TAIL)
        return float(found[:, HEAD:].multiply(Y_TEST[:, HEAD:]).astype(bool).sum() / Y_TEST[:, HEAD:].sum())

    plain, copied = (recall(longtail.Taug(base=longtail.DiSMEC(), tau=TAU, n_aug=n, merge="raw")) for n in (0, 8))
    assert copied > plain + 0.05


def test_calibrated_scores_are_log_probabilities():
    model = longtail.Taug(base=longtail.DiSMEC(), tau=TAU, held_out=0.3, merge="calibrated").fit(X, Y)
    found = model.predict(X_TEST, k=HEAD + TAIL)
    assert (found.scores < 0).all()
    right = np.asarray(Y_TEST[np.arange(300)[:, None], found.labels].todense(), dtype=bool)
    probability = np.exp(found.scores)
    for low, high in ((0, 0.2), (0.2, 0.6), (0.6, 1.0)):
        chosen = (probability >= low) & (probability < high)
        assert right[chosen].mean() == pytest.approx(probability[chosen].mean(), abs=0.1)


def test_texts_are_altered_word_by_word():
    data, test = planted(90), planted(30, seed=1)
    pipeline = longtail.TextPipeline(model=longtail.DiSMEC(), features=longtail.TextFeatures(min_df=1))
    model = longtail.Taug(base=pipeline, tau=0.3, n_aug=2).fit(data.texts, data.Y)
    assert model.input_kind == "text"
    found = model.predict(test.texts, k=1).labels[:, 0]
    assert np.asarray(test.Y[np.arange(30), found]).mean() > 0.9


@pytest.mark.parametrize(
    "arguments",
    [
        {"tau": 0}, {"tau": 1}, {"tau": -0.1}, {"tau": "0.1"}, {"n_aug": -1}, {"n_aug": 1.5}, {"keep": 0},
        {"keep": 1.1}, {"swaps": -1}, {"merge": "mean"}, {"points": "some"}, {"held_out": 2},
    ],
)  # fmt: skip
def test_parameters_that_make_no_sense_are_refused(arguments):
    with pytest.raises(ParameterError, match=next(iter(arguments))):
        longtail.Taug(**arguments).fit(X, Y)


def test_one_label_and_a_tail_without_points_are_refused():
    with pytest.raises(DataError, match="at least 2"):
        longtail.Taug().fit(X, Y[:, :1])
    with pytest.raises(DataError, match="tail labels"):
        longtail.Taug(tau=0.9).fit(X, np.column_stack([Y[:, :3].toarray(), np.zeros((600, 1))]))


def test_a_base_that_cannot_learn_its_part_says_which_part_it_is():
    base = longtail.Bonsai(hierarchy=np.full(18, -1), n_trees=1)
    with pytest.raises(DataError, match="the 3 head labels out of 18: a hierarchy"):
        longtail.Taug(base=base, tau=TAU).fit(X, Y)


def test_a_base_for_more_labels_than_a_part_has_learns_it():
    found = longtail.Taug(base=longtail.Bonsai(), tau=TAU).fit(X, Y).predict(X, k=1)
    assert (found.labels >= 0).all()
