from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from longtail.core.predictions import Predictions
from longtail.errors import ParameterError
from longtail.metrics import Matches, Terms, bootstrap, hoeffding, intervals, terms
from metrics.cases import random_case

NAMES = ("P@1", "nDCG@3", "PSP@3", "PSnDCG@5")


@pytest.fixture
def matches() -> Matches:
    predictions, Y, inverse = random_case(5, n=200)
    return Matches.of(predictions, Y, inverse_propensities=inverse)


def test_bootstrap_is_that_of_the_plain_loop_over_resampled_points() -> None:
    predictions, Y, inverse = random_case(5, n=40)
    matches = Matches.of(predictions, Y, inverse_propensities=inverse)
    result = bootstrap({name: terms(matches, name) for name in NAMES}, n_resamples=50, level=0.9, random_state=3)
    rng = np.random.default_rng(3)
    samples = {name: [] for name in NAMES}
    for _ in range(50):
        rows = rng.integers(0, 40, 40)
        again = Matches.of(predictions[rows], sparse.csr_matrix(Y[rows]), inverse_propensities=inverse)
        for name in NAMES:
            samples[name].append(terms(again, name).value)
    for name in NAMES:
        low, high = np.percentile(samples[name], [5, 95])
        assert result[name].value == terms(matches, name).value
        assert (result[name].low, result[name].high) == pytest.approx((low, high))


def test_bootstrap_is_the_same_for_a_seed_whatever_the_chunks(
    matches: Matches, monkeypatch: pytest.MonkeyPatch
) -> None:
    metrics = {name: terms(matches, name) for name in NAMES}
    first = bootstrap(metrics, n_resamples=100, random_state=1)
    assert bootstrap(metrics, n_resamples=100, random_state=2) != first
    monkeypatch.setattr(intervals, "_CHUNK", 700)  # three resamples at a time
    again = bootstrap(metrics, n_resamples=100, random_state=1)
    for name in NAMES:
        assert again[name] == pytest.approx(first[name])


def test_bootstrap_covers_the_mean_about_as_often_as_it_says() -> None:
    rng = np.random.default_rng(0)
    covered = 0
    for _ in range(200):
        interval = bootstrap({"x": Terms(rng.random(80))}, n_resamples=200, level=0.9)["x"]
        covered += interval.low <= 0.5 <= interval.high
    assert 165 <= covered <= 195, "180 expected, 4.2 standard deviation"


def test_hoeffding_by_hand() -> None:
    mean = hoeffding(Terms(np.full(50, 0.5)), level=0.95)
    margin = np.sqrt(np.log(2 / 0.05) / 100)
    assert mean == pytest.approx((0.5, 0.5 - margin, 0.5 + margin))
    wide = hoeffding(Terms(np.full(5000, 0.5), None, (0.0, 4.0)), level=0.95)
    assert wide.high - wide.value == pytest.approx(4 * margin / 10)
    ratio = hoeffding(Terms(np.full(5000, 1.0), np.full(5000, 2.0), (0.0, 4.0)), level=0.95)
    margin = 4 * np.sqrt(np.log(4 / 0.05) / 10000)
    assert ratio == pytest.approx((0.5, (1 - margin) / (2 + margin), (1 + margin) / (2 - margin)))


def test_hoeffding_stays_where_the_metric_can_be() -> None:
    assert hoeffding(Terms(np.array([1.0, 0.9])))[1:] == (0.0, 1.0)
    assert hoeffding(Terms(np.array([1.0]), np.array([2.0]), (0.0, 9.0)))[1:] == (0.0, 1.0)


@pytest.mark.parametrize(
    "name", ["P@3", "nDCG@3", "R@3", "PSP@3", "PSnDCG@3", "PSR@3", "unbiased-P@3", "unbiased-nDCG@3"]
)
def test_no_term_leaves_its_bounds(name: str) -> None:
    for seed in range(20):
        predictions, Y, inverse = random_case(seed)
        best = Predictions.from_csr(sparse.csr_matrix(Y.multiply(inverse[None, :])), 7)
        for ranked in (predictions, best):
            metric = terms(Matches.of(ranked, Y, inverse_propensities=inverse), name)
            both = (
                metric.numerators
                if metric.denominators is None
                else np.concatenate([metric.numerators, metric.denominators])
            )
            assert both.min() >= metric.bounds[0]
            assert both.max() <= metric.bounds[1]
            if metric.denominators is not None:
                assert (metric.numerators <= metric.denominators + 1e-12).all()


def test_what_cannot_be_asked(matches: Matches) -> None:
    with pytest.raises(ParameterError, match="not a mean over points"):
        terms(matches, "coverage@3")
    one = terms(matches, "P@1")
    with pytest.raises(ParameterError, match="level is 95"):
        bootstrap({"P@1": one}, level=95)
    with pytest.raises(ParameterError, match="level is 0"):
        hoeffding(one, level=0)
    with pytest.raises(ParameterError, match="n_resamples is 0"):
        bootstrap({"P@1": one}, n_resamples=0)
    with pytest.raises(ParameterError, match="same points"):
        bootstrap({"P@1": one, "other": Terms(np.ones(3))})
    with pytest.raises(ParameterError, match="at least one metric"):
        bootstrap({})
