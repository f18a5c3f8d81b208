"""What is learned, and that the answer is the same whichever way it is asked."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest

import longtail
from contract.models import (
    BLIND,
    EXACT_ALONE,
    TEST,
    TRAIN,
    answers,
    assert_same,
    assert_well_formed,
    every,
    every_feature_model,
    every_text_model,
    fitted,
    make,
    shared,
)
from contract.planted import N_LABELS, planted
from longtail.core.predictions import Predictions
from longtail.core.progress import Silent
from longtail.core.run import Run
from longtail.errors import ParameterError


@every
def test_the_planted_labels_are_found(name):
    predictions = answers(shared(name), k=2)
    assert_well_formed(predictions, 30, 2)
    if name in BLIND:
        by_count = np.argsort(-np.bincount(TRAIN.Y.indices, minlength=N_LABELS), kind="stable")
        assert (predictions.labels == by_count[:2]).all()
        return
    first_is_right = TEST.Y[np.arange(30), predictions.labels[:, 0]]
    assert np.asarray(first_is_right).sum() >= 29
    found = [len(set(row) & set(true)) / len(true) for row, true in zip(predictions.labels, TEST.lists, strict=True)]
    assert np.mean(found) >= 0.95


@every
def test_a_second_fit_forgets_the_first(name):
    other = planted(60, seed=7)
    model = fitted(name)
    model.fit(other.inputs(model.input_kind), other.Y)
    assert_same(answers(model), answers(fitted(name, other)))
    assert model.n_points_ == 60
    np.testing.assert_array_equal(model.label_counts_, np.bincount(other.Y.indices, minlength=N_LABELS))


@every
def test_a_batch_and_single_points_agree(name):
    model = shared(name)
    inputs = TEST.inputs(model.input_kind)
    together = answers(model)
    singly = Predictions.concatenate([model.predict(inputs[i : i + 1], k=3) for i in range(30)])
    np.testing.assert_array_equal(together.labels, singly.labels)
    if name in EXACT_ALONE:
        np.testing.assert_array_equal(together.scores, singly.scores)
    else:
        largest = np.abs(np.where(together.labels < 0, 0, together.scores)).max(axis=1, keepdims=True)
        near = np.abs(together.scores - singly.scores) <= 1e-5 * largest
        assert (near | (together.labels < 0)).all()


@every
def test_smaller_k_is_a_prefix_of_larger_k(name):
    model = shared(name)
    assert_same(answers(model, k=1), answers(model, k=4).top(1))


@every
def test_a_k_above_the_number_of_labels_gives_all_of_them(name):
    model = shared(name)
    assert_same(answers(model, k=N_LABELS + 7), answers(model, k=N_LABELS))


@every
def test_no_points_give_no_predictions(name):
    model = shared(name)
    assert answers(model, planted(0)).labels.shape == (0, 3)


@every
def test_the_same_seed_gives_the_same_model(name):
    assert_same(answers(fitted(name)), answers(shared(name)))


@every
def test_the_number_of_threads_changes_nothing(name):
    threads = [key for key in make(name).get_params() if key.split("__")[-1] == "n_jobs"]
    one, two, many = (answers(fitted(name, **dict.fromkeys(threads, n))) for n in (1, 2, -1))
    assert_same(one, two)
    assert_same(one, many)


@every
def test_labels_as_lists_and_as_matrices_are_the_same(name):
    inputs = TRAIN.inputs(make(name).input_kind)
    from_csr = answers(shared(name))
    for Y in (TRAIN.lists, TRAIN.Y.toarray(), TRAIN.Y.toarray().astype(bool), TRAIN.Y.tocsc()):
        assert_same(answers(make(name).fit(inputs, Y)), from_csr)


@every_feature_model
def test_sparse_dense_and_int64_features_are_the_same(name):
    wide = TRAIN.X.copy()
    wide.indices, wide.indptr = wide.indices.astype(np.int64), wide.indptr.astype(np.int64)
    expected = answers(shared(name))
    for X in (TRAIN.X.toarray(), TRAIN.X.toarray().astype(np.float64), TRAIN.X.tocsc(), wide):
        model = make(name).fit(X, TRAIN.Y)
        assert_same(model.predict(TEST.X, k=3), expected)
        assert_same(model.predict(TEST.X.toarray(), k=3), expected)


@every_text_model
def test_texts_in_any_sequence_are_the_same(name):
    expected = answers(shared(name))
    for texts in (tuple(TRAIN.texts), np.array(TRAIN.texts), np.array(TRAIN.texts, dtype=object)):
        assert_same(answers(make(name).fit(texts, TRAIN.Y)), expected)


class Interrupted(Silent):
    """A progress that somebody stops with Ctrl-C."""

    started = finished = 0

    def start(self, task: str, total: int) -> None:
        self.started += 1

    def advance(self, amount: int = 1) -> None:
        if amount:
            raise KeyboardInterrupt

    def finish(self) -> None:
        self.finished += 1


@every
def test_a_progress_that_began_ends_when_training_is_interrupted(name):
    progress, model = Interrupted(), make(name)
    with contextlib.suppress(KeyboardInterrupt):  # not all have one
        model.fit(TRAIN.inputs(model.input_kind), TRAIN.Y, run=Run(progress))
    assert progress.started == progress.finished
    assert hasattr(model, "n_labels_") == (progress.started == 0)


# --- options of predict ----------------------------------------------------------------------------------------------

# Another value of each parameter that may be changed after `fit`.
OTHER_VALUES = {
    "exponent": 0.9, "beam": 1, "alpha": 0.1, "gamma": 3.0, "length": 3, "quantise": "none", "n_retrieved": 1,
    "device": "auto", "power": 1,
}  # fmt: skip


@every
def test_an_option_of_predict_is_a_parameter_for_one_call(name):
    model = fitted(name)
    before, parameters = answers(model), repr(model.get_params())
    for option in model.adjustable:
        given = model.predict(TEST.inputs(model.input_kind), k=3, **{option: OTHER_VALUES[option]})
        kept = getattr(model, option)
        assert_same(given, answers(model.set_params(**{option: OTHER_VALUES[option]})))
        model.set_params(**{option: kept})
    assert repr(model.get_params()) == parameters
    assert_same(answers(model), before)


@every
def test_an_option_that_no_model_inside_has_is_refused(name):
    with pytest.raises(ParameterError, match=r"takes no nonsense; (options are|it has no options)"):
        shared(name).predict(TEST.inputs(shared(name).input_kind), k=1, nonsense=1)


def test_options_go_through_wrappers_to_the_model_that_has_them():
    bonsai = longtail.Bonsai(n_children=3, max_leaf=2)
    model = longtail.UnitRows(model=longtail.PropensityRerank(base=bonsai, folds=2)).fit(TRAIN.X, TRAIN.Y)
    narrow, wide = (model.predict(TEST.X, k=6, beam=beam, exponent=0.0) for beam in (1, 10))
    assert not np.array_equal(narrow.labels, wide.labels)
    for found, beam in ((narrow, 1), (wide, 10)):
        np.testing.assert_array_equal(found.labels, model.model_.base_.predict(TEST.X, k=6, beam=beam).labels)
    assert model.model_.base_.beam == 10
    with pytest.raises(ParameterError, match="beam is 0"):
        model.predict(TEST.X, k=3, beam=0)


@every
def test_a_model_explains_its_scores(name):
    model = shared(name)
    point = TEST.texts[0] if model.input_kind == "text" else TEST.X[:1]
    found = model.explain(point, 2)
    assert found.label == 2
    assert found.tokens if model.input_kind == "text" else found.features
    if found.is_sum:
        assert found.bias + sum(own.contribution for own in found.features) == pytest.approx(found.score, abs=1e-5)
