"""Label sets: thresholds, budgets, and recalls that are promised and kept."""

from __future__ import annotations

import copy
import functools

import numpy as np
import pytest
from scipy import sparse
from sklearn.metrics import precision_recall_fscore_support

import longtail
from contract.models import TEST, every, shared
from contract.planted import planted
from longtail.core.sets import SetCurve, sorted_sets, thresholds_for
from longtail.errors import ParameterError
from longtail.metrics import evaluate_sets

UNSEEN = planted(60, seed=5)


@functools.cache
def calibrated(name):
    model = copy.copy(shared(name))
    return model.calibrate(UNSEEN.inputs(model.input_kind), UNSEEN.Y)


@every
def test_sets_of_every_model(name):
    model = calibrated(name)
    X = TEST.inputs(model.input_kind)
    found = model.predict_sets(X, threshold=0.5)
    kept = found.labels >= 0
    assert (found.scores[kept] >= 0.5).all()
    assert (found.scores[:, 1:] <= found.scores[:, :-1]).all(), "most probable first"
    assert (kept[:, :-1] | ~kept[:, 1:]).all(), "padding comes last"
    every_label = model.predict(X, k=found.k, calibrated=True)
    assert kept.sum() == (every_label.scores >= 0.5).sum()
    small = model.predict_sets(X, budget=1.5)
    np.testing.assert_array_equal(model.predict_sets(X[:1], budget=1.5).labels, small.labels[:1])
    assert small.to_indicator().sum() <= 30 * 2.5


def drawn(rng, n, n_labels=30):
    """Probabilities of candidates that are wrong on purpose, and labels; a few labels are no candidates."""
    truth = rng.beta(0.3, 1.5, (n, n_labels))
    observed = rng.random((n, n_labels)) < truth
    said = truth**1.7 * np.exp(rng.normal(-0.5, 0.4, truth.shape))
    said[rng.random((n, n_labels)) < 0.02] = -np.inf
    return said, observed & np.isfinite(said), sparse.csr_matrix(observed.astype(np.float32))


def recall_at(threshold, said, hits, observed):
    relevant = np.diff(observed.indptr)
    return float((((said >= threshold) & hits).sum(axis=1) / np.maximum(relevant, 1))[relevant > 0].mean())


def test_the_promised_recall_is_kept_over_200_repetitions():
    """In expectation for all repetitions together; with a confidence in that share of them."""
    rng = np.random.default_rng(0)
    new = drawn(rng, 20_000)
    thresholds = thresholds_for(*drawn(rng, 300)[:2])
    average, confident = [], []
    for _ in range(200):
        curve = SetCurve.of(thresholds, *drawn(rng, 300))
        average.append(recall_at(curve.for_recall(0.9), *new))
        confident.append(recall_at(curve.for_recall(0.9, 0.9), *new))
    error = np.std(average) / np.sqrt(200)
    assert np.mean(average) >= 0.9 - 3 * error
    assert np.mean(average) < 0.915, "sets are no larger than they must be"
    assert np.mean(np.array(confident) >= 0.9) >= 0.9
    assert np.mean(np.array(average) >= 0.9) < 0.9, "without a confidence single repetitions may fall short"


def test_a_curve_counts_labels_and_recall_by_its_definition():
    rng = np.random.default_rng(1)
    said, hits, observed = drawn(rng, 50)
    curve = SetCurve.of(thresholds_for(said, hits), said, hits, observed)
    for threshold, size, recall in list(zip(curve.thresholds, curve.sizes, curve.recalls, strict=True))[::7]:
        assert size == pytest.approx((said >= threshold).sum() / 50)
        assert recall == pytest.approx(recall_at(threshold, said, hits, observed))
    for budget in (0.5, 2.0, 7.3):
        assert (said >= curve.for_budget(budget)).sum() / 50 <= budget
    assert (said >= curve.for_budget(7.3)).sum() / 50 > 6.5


def test_sets_are_sorted_by_probability_and_padded():
    found = longtail.Predictions([[3, 1, 2]], [[0.2, 0.9, 0.5]])
    kept = sorted_sets(found, 0.3)
    assert kept.labels.tolist() == [[1, 2, -1]]
    assert found.at_least(0.3).labels.tolist() == [[1, 2, -1]]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "give one of threshold, budget, recall_at_least; given: none"),
        ({"threshold": 0.5, "budget": 2}, "given: threshold, budget"),
        ({"threshold": 0.0}, "threshold is 0.0, but must be a probability above 0"),
        ({"threshold": 1.5}, "threshold is 1.5"),
        ({"threshold": float("nan")}, "threshold is nan"),
        ({"budget": -1}, "budget is -1"),
        ({"budget": 99}, "only 6 candidates per point"),
        ({"recall_at_least": 1.0}, "recall_at_least is 1.0, but must be a number above 0 and below 1"),
        ({"recall_at_least": 0.999}, r"no threshold reaches: all 6 candidates .* can be promised"),
        ({"recall_at_least": 0.5, "confidence": 3}, "confidence is 3"),
        ({"recall_at_least": 0.5, "most": 3}, "most cannot be given"),
        ({"budget": 2, "confidence": 0.9}, "confidence is about recall_at_least"),
    ],
)
def test_sets_that_cannot_be_are_refused(arguments, message):
    with pytest.raises(ParameterError, match=message):
        calibrated("dismec").predict_sets(TEST.X, **arguments)


def test_a_model_that_was_not_calibrated_says_what_to_do():
    with pytest.raises(ParameterError, match="has no probabilities; calibrate it"):
        shared("dismec").predict_sets(TEST.X, threshold=0.5)
    with pytest.raises(ParameterError, match=r"budget needs points .*model\.calibrate\(X, Y\)"):
        shared("popularity").predict_sets(TEST.X, budget=2)


def test_metrics_of_sets_are_those_of_scikit_learn():
    rng = np.random.default_rng(2)
    observed = rng.random((40, 12)) < 0.2
    observed[:3] = False
    said = rng.random((40, 12)) * (1 + observed)
    found = sorted_sets(longtail.Predictions.from_dense(said, 12), 0.9)
    metrics = evaluate_sets(found, observed.astype(int))
    for name, average in (("micro", "micro"), ("macro", "macro"), ("example", "samples")):
        expected = precision_recall_fscore_support(observed, said >= np.float32(0.9), average=average, zero_division=0)
        for letter, value in zip(("P", "R", "F1"), expected[:3], strict=True):
            assert metrics[f"{name}-{letter}"] == pytest.approx(100 * value), (name, letter)
    assert metrics["labels per point"] == (found.labels >= 0).sum() / 40
