"""Points that a base has not seen: who predicts whom, and what a resumed run does not do again."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from compose.bases import Witness
from longtail.core.checkpoint import Checkpoint
from longtail.core.run import Run
from longtail.core.unseen import Splits, predict_unseen, rows_of
from longtail.data.texts import Texts
from longtail.errors import DataError, ParameterError

N = 31
X = sparse.csr_matrix(np.arange(1, N + 1, dtype=np.float32)[:, None])
Y = sparse.csr_matrix(np.tile([1, 0, 1], (N, 1)).astype(np.float32))


@pytest.fixture(autouse=True)
def _fresh_witness(monkeypatch):
    monkeypatch.setattr(Witness, "fits", [])
    monkeypatch.setattr(Witness, "fails_at", None)


def unseen(splits, run=None):
    return predict_unseen(Witness, X, Y, splits, k=2, run=run or Run())


@pytest.mark.parametrize("folds", [2, 3, 7, 50])
def test_cross_fitting_predicts_every_point_once_by_a_base_that_has_not_seen_it(folds):
    found = unseen(Splits(folds=folds, held_out=None, sample=1000, random_state=0))
    assert sorted(found.rows) == list(range(N))
    assert (found.predictions.labels[:, 0] == 1).all(), "label 0 would mean that the base has seen the point"
    np.testing.assert_allclose(found.predictions.scores[:, 0], 1 + (found.rows + 1) / 1000, rtol=1e-5)
    assert len(Witness.fits) == min(folds, N)


def test_one_part_can_be_held_out_instead():
    found = unseen(Splits(folds=3, held_out=0.2, sample=1000, random_state=0))
    assert found.rows.size == round(0.2 * N)
    assert (found.predictions.labels[:, 0] == 1).all()
    assert Witness.fits == [N - found.rows.size]


def test_the_number_of_predicted_points_is_bounded_and_other_seeds_part_otherwise():
    found = unseen(Splits(folds=3, held_out=None, sample=9, random_state=0))
    assert found.rows.size == 9
    assert not np.array_equal(found.rows, unseen(Splits(folds=3, held_out=None, sample=9, random_state=1)).rows)


def test_a_resumed_run_does_not_train_finished_parts_again(tmp_path, monkeypatch):
    splits = Splits(folds=4, held_out=None, sample=1000, random_state=0)
    expected = unseen(splits)
    monkeypatch.setattr(Witness, "fits", [])
    monkeypatch.setattr(Witness, "fails_at", 3)
    checkpoint = Checkpoint(tmp_path / "partial", resume=False)
    checkpoint.open({"job": 1})
    with pytest.raises(KeyboardInterrupt):
        unseen(splits, Run(checkpoint=checkpoint))
    checkpoint._unlock()
    monkeypatch.setattr(Witness, "fits", [])
    monkeypatch.setattr(Witness, "fails_at", None)
    again = Checkpoint(tmp_path / "partial", resume=True)
    again.open({"job": 1})
    found = unseen(splits, Run(checkpoint=again))
    assert len(Witness.fits) == 2, "two of four parts were finished"
    np.testing.assert_array_equal(found.rows, expected.rows)
    np.testing.assert_array_equal(found.predictions.labels, expected.predictions.labels)
    np.testing.assert_array_equal(found.predictions.scores, expected.predictions.scores)


def test_the_group_of_a_score_is_that_of_the_base_which_gave_it(monkeypatch):
    def fit(self, prepared, run):
        plain(self, prepared, run)
        self.score_groups_ = np.full(prepared.Y.shape[1], len(Witness.fits), np.int8)

    plain = Witness._fit
    monkeypatch.setattr(Witness, "_fit", fit)
    found = unseen(Splits(folds=2, held_out=None, sample=1000, random_state=0))
    sizes = [int((found.groups == number).all(axis=1).sum()) for number in (1, 2)]
    assert sizes == [16, 15], "two parts, two bases"


@pytest.mark.parametrize(
    ("splits", "message"),
    [
        (Splits(folds=1, held_out=None, sample=10, random_state=0), "folds"),
        (Splits(folds=2.5, held_out=None, sample=10, random_state=0), "folds"),
        (Splits(folds=2, held_out=0.0, sample=10, random_state=0), "held_out"),
        (Splits(folds=2, held_out=1.0, sample=10, random_state=0), "held_out"),
        (Splits(folds=2, held_out="half", sample=10, random_state=0), "held_out"),
        (Splits(folds=2, held_out=None, sample=0, random_state=0), "sample"),
    ],
)
def test_splits_that_make_no_sense_are_refused(splits, message):
    with pytest.raises(ParameterError, match=message):
        splits.check_splits()


def test_one_point_cannot_be_parted():
    with pytest.raises(DataError, match="one point"):
        predict_unseen(Witness, X[:1], Y[:1], Splits(folds=2, held_out=None, sample=10, random_state=0), k=1, run=Run())


def test_rows_of_matrices_and_of_texts():
    rows = np.array([2, 0])
    assert rows_of(X, rows).toarray().ravel().tolist() == [3.0, 1.0]
    texts = ["a", "b", "c"]
    assert rows_of(texts, rows) == ["c", "a"]
    packed = rows_of(Texts.of(texts), rows)
    assert isinstance(packed, Texts)
    assert list(packed) == ["c", "a"]
    assert rows_of(np.array(texts), rows).tolist() == ["c", "a"]
