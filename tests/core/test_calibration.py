"""Scores as probabilities: what is recovered, what is kept, what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.special import expit

from longtail import DiSMEC
from longtail.core.calibrated import calibration_in_training
from longtail.core.calibration import Calibration, CalibrationOfGroups, log_probability
from longtail.core.predictions import Predictions
from longtail.errors import DataError


def drawn(log_odds, n=200_000, seed=0):
    """Scores, and hits that follow from known log-odds."""
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=n)
    return scores, rng.random(n) < expit(log_odds(scores))


def surprise(z, hits):
    return float((np.logaddexp(0, z) - hits * z).mean())


def test_a_straight_line_is_found_again():
    calibration = Calibration.fit(*drawn(lambda s: 2 * s - 1))
    where = np.linspace(-2, 2, 9)
    np.testing.assert_allclose(calibration(where), 2 * where - 1, atol=0.15)


def test_a_bend_is_found_where_a_straight_line_would_miss_it():
    def bent(s):
        return np.where(s < 0, 4 * s, 0.5 * s)

    scores, hits = drawn(bent)
    calibration = Calibration.fit(scores, hits)
    where = np.array([-1.0, -0.5, 0.0, 0.5, 1.5])
    np.testing.assert_allclose(calibration(where), bent(where), atol=0.25)
    assert surprise(calibration(scores), hits) < surprise(bent(scores), hits) + 2e-4


def test_few_points_give_nearly_a_straight_line():
    scores, hits = drawn(lambda s: 3 * s, n=40)
    calibration = Calibration.fit(scores, hits)
    slopes = np.diff(calibration.log_odds) / np.diff(calibration.knots)
    assert slopes.max() / slopes.min() < 2


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.integers(4, 60), st.floats(0.0, 1.0))
def test_the_order_of_scores_is_kept_inside_and_beyond_the_knots(seed, n, share):
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=n) * 10.0 ** rng.integers(-3, 4)
    calibration = Calibration.fit(scores, rng.random(n) < share)
    wide = np.sort(np.concatenate([scores, scores.min() - abs(scores[:3]), scores.max() + abs(scores[:3])]))
    apart = np.diff(wide) > 1e-6 * np.ptp(wide)
    assert (np.diff(calibration(wide))[apart] > 0).all()


@pytest.mark.parametrize("hits", [[False] * 5 + [True] * 5, [True] * 10, [False] * 10])
def test_scores_that_part_perfectly_and_scores_without_hits_or_misses_stay_finite(hits):
    calibration = Calibration.fit(np.arange(10.0), np.array(hits))
    assert np.isfinite(calibration(np.array([-100.0, 0.0, 4.5, 9.0, 100.0]))).all()
    assert calibration(np.array([9.0])) > calibration(np.array([0.0]))


def test_rounding_decides_nothing_where_segments_are_narrow():
    rng = np.random.default_rng(2)
    hits = rng.random(540) < 0.2
    scores = np.where(hits, 1 - 10 ** rng.uniform(-7, -0.3, 540), 10 ** rng.uniform(-3, -1, 540))
    found = Calibration.fit(scores, hits)
    assert np.diff(found.knots).min() < 1e-4  # of a range of 1
    other = Calibration.fit(scores * (1 + 1e-13 * rng.normal(size=540)), hits)
    np.testing.assert_allclose(other(scores), found(scores), rtol=1e-4, atol=1e-4)


def test_padding_stays_at_the_end():
    calibration = Calibration.fit(np.arange(10.0), np.arange(10) > 4)
    assert calibration(np.array([-np.inf])) == -np.inf
    assert log_probability(np.array([-np.inf])) == -np.inf


def test_infinite_scores_stay_infinite_where_the_function_is_flat():
    flat = Calibration(np.array([0.0, 1.0, 2.0]), np.array([-1.0, -1.0, -1.0]))
    assert flat(np.array([np.inf, 3.0, 1.0, -5.0, -np.inf])).tolist() == [np.inf, -1, -1, -1, -np.inf]


def test_log_probabilities_keep_their_order_where_probabilities_would_round_to_one():
    z = np.array([20.0, 30.0, 40.0])
    assert (np.diff(log_probability(z).astype(np.float32)) > 0).all()
    np.testing.assert_allclose(log_probability(np.array([-1.0, 0.5])), np.log(expit([-1.0, 0.5])))


def test_scores_that_say_nothing_are_refused():
    with pytest.raises(DataError, match="same score"):
        Calibration.fit(np.ones(10), np.arange(10) > 4)
    with pytest.raises(DataError, match="infinite"):
        Calibration.fit(np.array([0.0, np.inf]), np.array([True, False]))


def two_scales(n_points):
    """Labels 0 and 1 with scores that mean the same but for a shift by 5 and a factor of 3."""
    rng = np.random.default_rng(0)
    z = rng.normal(0, 2, (n_points, 2))
    hits = rng.random((n_points, 2)) < 1 / (1 + np.exp(-z))
    scores = np.column_stack([z[:, 0], 5 + 3 * z[:, 1]]).astype(np.float32)
    return Predictions(np.tile(np.array([[0, 1]], np.int32), (n_points, 1)), scores), hits, z


def test_scores_of_two_models_have_scales_of_their_own():
    found, hits, z = two_scales(5000)
    groups = found.labels.astype(np.int8)
    apart, together = (CalibrationOfGroups.fit(found, hits, groups, n) for n in (2, 1))
    assert np.abs(apart(found.scores, groups) - z).mean() < 0.2
    assert np.abs(together(found.scores, groups) - z).mean() > 0.5
    again = CalibrationOfGroups.from_state(apart.to_state())
    np.testing.assert_array_equal(again(found.scores, groups), apart(found.scores, groups))


def test_padding_stays_padding_and_a_small_group_goes_with_the_others():
    found, hits, _ = two_scales(50)
    small = CalibrationOfGroups.fit(found, hits, found.labels.astype(np.int8), 2)
    assert small.parts[0] is small.parts[1]
    found, hits, _ = two_scales(500)
    model = CalibrationOfGroups.fit(found, hits, found.labels.astype(np.int8), 2)
    z = model(np.array([[2.0, 1.0, -np.inf]], np.float32), np.array([[1, 0, 0]], np.int8))
    assert np.isfinite(z[0, :2]).all()
    assert z[0, 2] == -np.inf


def test_probabilities_that_are_right_stay_as_they_are():
    """Nothing that a few hundred points teach makes them likelier; only what a threshold gives is learned."""
    rng = np.random.default_rng(0)
    likely = np.sort(rng.uniform(0.001, 0.9, (600, 20)), axis=1)[:, ::-1]
    hits = rng.uniform(size=likely.shape) < likely
    labels = np.broadcast_to(np.arange(20, dtype=np.int32), likely.shape)
    found = Predictions(labels, np.log(likely))
    model = DiSMEC(n_jobs=1).fit(np.eye(20, dtype=np.float32), np.eye(20))
    calibration = calibration_in_training(model, found, sparse.csr_matrix(hits.astype(np.float32)))
    np.testing.assert_allclose(calibration(model, found), likely, atol=0.002)
    assert calibration.curve.n_points > 250
    wrong = Predictions(labels, np.log(likely**3))
    calibration = calibration_in_training(model, wrong, sparse.csr_matrix(hits.astype(np.float32)))
    assert np.abs(calibration(model, wrong) - likely).mean() < 0.05, "wrong ones are mended"
    assert calibration_in_training(model, found[:100], sparse.csr_matrix(hits[:100].astype(np.float32))) is None
