"""Calibrated predictions of every estimator: probabilities, the same labels, kept by a saved model."""

from __future__ import annotations

import copy

import numpy as np
import pytest

import longtail
from contract.models import TEST, TRAIN, answers, assert_same, every, fitted, make, shared
from contract.planted import N_LABELS, planted
from longtail.errors import DataError, ParameterError

UNSEEN = planted(60, seed=5)


def calibrated(name):
    model = copy.copy(shared(name))  # which stays as it is
    return model.calibrate(UNSEEN.inputs(model.input_kind), UNSEEN.Y)


def asked(model, data=TEST, k=3, **options):
    return model.predict(data.inputs(model.input_kind), k=k, calibrated=True, **options)


@every
def test_a_calibrated_model_gives_probabilities_and_the_same_labels(name, tmp_path):
    model = calibrated(name)
    plain, found = answers(model), asked(model)
    np.testing.assert_array_equal(found.labels, plain.labels)
    kept = found.labels >= 0
    assert ((found.scores[kept] > 0) & (found.scores[kept] <= 1)).all()
    assert np.isneginf(found.scores[~kept]).all()
    one = asked(model, k=1)
    np.testing.assert_allclose(one.scores, found.scores[:, :1], rtol=1e-5)
    model.save(tmp_path / "m")
    loaded = longtail.load_model(tmp_path / "m")
    assert_same(asked(loaded), found)


@every
def test_a_model_without_probabilities_says_what_to_do(name):
    model = shared(name)
    if model.has_probabilities():
        found = asked(model)
        np.testing.assert_array_equal(found.labels, answers(model).labels)
        assert (found.scores[found.labels >= 0] > 0).all()
        return
    assert not hasattr(model, "predict_probabilities")
    with pytest.raises(ParameterError, match=r"has no probabilities; calibrate it .*: model\.calibrate\(X, Y\)"):
        asked(model)


def test_probabilities_are_those_of_the_data():
    """Among labels with a probability of about p, the share p is observed."""
    data = longtail.make_longtail(n_points=3000, n_labels=40, random_state=0).train
    rows = np.random.default_rng(0).permutation(3000)
    train, unseen, test = rows[:1200], rows[1200:2000], rows[2000:]
    model = longtail.DiSMEC(n_jobs=1).fit(data.X[train], data.Y[train]).calibrate(data.X[unseen], data.Y[unseen])
    found = model.predict(data.X[test], k=5, calibrated=True)
    hits = np.asarray(data.Y[test][np.arange(1000)[:, None], found.labels].todense())
    judged = 0
    for low, high in ((0.0, 0.1), (0.1, 0.4), (0.4, 0.7), (0.7, 1.01)):
        inside = (found.scores >= low) & (found.scores < high)
        if inside.sum() > 100:
            judged += 1
            assert abs(found.scores[inside].mean() - hits[inside].mean()) < 0.06
    assert judged >= 2


def test_a_second_fit_forgets_the_calibration_of_the_first():
    model = fitted("dismec").calibrate(UNSEEN.X, UNSEEN.Y)
    assert model.has_probabilities()
    assert not model.fit(TRAIN.X, TRAIN.Y).has_probabilities()


def test_probabilities_of_a_reranker_do_not_depend_on_its_exponent():
    model = calibrated("propensityrerank")
    base = {(i, label): p for i, row in enumerate(asked(model, k=N_LABELS, exponent=0.0).rows()) for label, p in row}
    for i, row in enumerate(asked(model, k=3, exponent=1.0).rows()):
        for label, probability in row:
            assert probability == pytest.approx(base[i, label], rel=1e-4)


def test_a_copy_trained_without_some_points_calibrates_too():
    model = fitted("dismec").calibrate_by_training(TRAIN.X, TRAIN.Y, held_out=0.3)
    assert model.probabilities_.n_points == 27
    assert_same(answers(model), answers(shared("dismec")))
    first = asked(model, k=1).scores
    assert first.mean() > 0.7
    with pytest.raises(ParameterError, match="held_out is 2"):
        model.calibrate_by_training(TRAIN.X, TRAIN.Y, held_out=2)


def test_label_names_are_matched_and_unknown_labels_count_as_never_found():
    names = [f"n{i}" for i in range(N_LABELS)]
    model = make("dismec").fit(TRAIN.X, TRAIN.Y, label_names=names)
    lists = [[names[label] for label in row] for row in UNSEEN.lists]
    by_name = asked(model.calibrate(UNSEEN.X, lists))
    assert_same(by_name, asked(model.calibrate(UNSEEN.X, UNSEEN.Y)))
    assert_same(by_name, asked(model.calibrate(UNSEEN.X, [[*row, "unknown"] for row in lists])))


def test_two_points_are_few_but_give_probabilities():
    found = asked(make("dismec").fit(TRAIN.X, TRAIN.Y).calibrate(UNSEEN.X[:2], UNSEEN.Y[:2]))
    assert ((found.scores > 0) & (found.scores <= 1)).all()


@pytest.mark.parametrize(
    ("X", "Y", "message"),
    [
        (TRAIN.X, TRAIN.Y, "the points that the model was trained on"),
        (TEST.X, TEST.Y * 0, "no point has a label"),
        (TEST.X[:1], TEST.Y[:1], "at least 2 points"),
        (TEST.X, TEST.Y[:5], "X has 30 points, but Y has 5"),
    ],
)
def test_points_that_teach_nothing_are_refused_and_lose_nothing(X, Y, message):
    model = calibrated("dismec")
    before = asked(model)
    with pytest.raises(DataError, match=message):
        model.calibrate(X, Y)
    assert_same(asked(model), before)
