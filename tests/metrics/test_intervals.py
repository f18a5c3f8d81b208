from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from longtail import metrics
from longtail.core.predictions import Predictions
from longtail.errors import ParameterError
from longtail.metrics import (
    Matches,
    Terms,
    bootstrap,
    coverage,
    hoeffding,
    intervals,
    label_terms,
    macro_f1,
    paired_bootstrap,
    terms,
)
from longtail.metrics.named import POINT_METRICS
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
    asked = {name: terms(matches, name) for name in NAMES}
    first = bootstrap(asked, n_resamples=100, random_state=1)
    assert bootstrap(asked, n_resamples=100, random_state=2) != first
    monkeypatch.setattr(intervals, "_CHUNK", 700)  # three resamples at a time
    again = bootstrap(asked, n_resamples=100, random_state=1)
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


def all_terms(matches: Matches) -> dict[str, Terms]:
    known = metrics.KnownCounts(matches.n_relevant)
    retained = metrics.KnownRetention(1 / matches.inverse)
    averages = (metrics.unbiased_recall, metrics.unbiased_mrr, metrics.unbiased_adg)
    return (
        {name: terms(matches, f"{name}@3") for name in POINT_METRICS}
        | {f"{average.__name__}, counts": average(matches, 3, known) for average in averages}
        | {f"{average.__name__}, retention": average(matches, 3, retained) for average in averages}
        | {"F": metrics.unbiased_f(matches, 3, known), "Hamming": metrics.unbiased_hamming(matches, 3)}
    )


@pytest.mark.parametrize("seed", range(20))
def test_no_term_leaves_its_bounds(seed: int) -> None:
    predictions, Y, inverse = random_case(seed)
    best = Predictions.from_csr(sparse.csr_matrix(Y.multiply(inverse[None, :])), 7)
    for ranked in (predictions, best):
        for name, metric in all_terms(Matches.of(ranked, Y, inverse_propensities=inverse)).items():
            low, high = metric.bounds
            assert low <= metric.numerators.min() <= metric.numerators.max() <= high, name
            if metric.denominators is not None:
                assert metric.denominators.max() <= high, name
                assert (metric.numerators <= metric.denominators + 1e-12).all(), name


def test_bounds_are_reached() -> None:
    # One label: always true and hit, the heaviest there is. A bound that a term can reach is not too wide.
    matches = Matches.of(Predictions(np.zeros((1, 1), np.int32), np.ones((1, 1))), [[0]], inverse_propensities=[3.0])
    hit = metrics.unbiased_hamming(matches, 1)
    assert hit.numerators[0] == hit.bounds[0] == -2
    for metric in (metrics.unbiased_recall, metrics.unbiased_mrr, metrics.unbiased_adg, metrics.unbiased_f):
        reached = metric(matches, 1, metrics.KnownCounts([1]))
        assert reached.numerators[0] == reached.bounds[1] == 3
    for name in ("unbiased-P@1", "PSP@1", "PSnDCG@1", "PSR@1"):
        assert terms(matches, name).numerators[0] == terms(matches, name).bounds[1] == 3


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


def test_macro_f1_and_coverage_have_intervals_over_labels():
    """Their values are those of the metrics; one model that finds every third label more is better beyond chance."""
    n = 90
    truth = np.eye(n)
    found = np.where(np.arange(n) % 3 == 0, np.arange(n), (np.arange(n) + 1) % n).astype(np.int32)[:, None]
    more = np.where(np.arange(n) % 3 < 2, np.arange(n), (np.arange(n) + 1) % n).astype(np.int32)[:, None]
    own, other = (Matches.of(Predictions(labels, np.ones((n, 1), np.float32)), truth) for labels in (more, found))
    for name, measure in (("macro-F1@1", macro_f1), ("coverage@1", coverage)):
        assert label_terms(own, 1)[name].value == pytest.approx(measure(own, 1))
        interval = bootstrap(label_terms(own, 1))[name]
        assert interval.low < interval.value < interval.high
        difference = paired_bootstrap(label_terms(own, 1), label_terms(other, 1))[name]
        assert difference.value == pytest.approx(measure(own, 1) - measure(other, 1))
        assert 0 < difference.low < difference.value < difference.high
    assert label_terms(own, 1, n_labels=n + 10)["macro-F1@1"].numerators.size == n + 10
