"""Where labels go missing with known chances, the estimates hit the complete labels' values; plain metrics do not.

Labels are dropped again and again from one complete label matrix; the mean of an unbiased estimate over the repetitions
must lie within three standard errors of the value on the complete labels.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy import sparse

from longtail import metrics
from longtail.core.predictions import Predictions
from longtail.metrics import KnownCounts, KnownRetention, Matches

N_POINTS, N_LABELS, REPEATS = 600, 80, 300


class Planted:
    """Complete labels with a power-law tail, predictions better than chance, propensities that fall in the tail."""

    def __init__(self) -> None:
        rng = np.random.default_rng(7)
        rates = 0.9 * np.arange(1, N_LABELS + 1) ** -0.7
        relevant = rng.random((N_POINTS, N_LABELS)) < rates
        relevant[~relevant.any(axis=1), 0] = True  # retention g_l / |y*| needs a label
        self.complete = sparse.csr_matrix(relevant.astype(np.float32))
        self.sizes = relevant.sum(axis=1)
        scores = relevant + rng.normal(0, 0.7, relevant.shape) + rates
        self.predictions = Predictions.from_dense(scores, 10)
        self.propensities = np.linspace(0.9, 0.2, N_LABELS)
        self.retention = np.linspace(1.0, 0.4, N_LABELS)  # at most the smallest |y*|, so that g_l / |y*| <= 1

    def complete_matches(self) -> Matches:
        return Matches.of(self.predictions, self.complete, inverse_propensities=np.ones(N_LABELS))

    def estimates(self, keep: np.ndarray, metric: Callable[[Matches], float]) -> np.ndarray:
        """The metric over repeated dropping; `keep` is the probability to observe each stored label of `complete`."""
        rng = np.random.default_rng(11)
        values = []
        for _ in range(REPEATS):
            observed = self.complete.copy()
            observed.data = (rng.random(keep.size) < keep).astype(np.float32)
            matches = Matches.of(self.predictions, observed, inverse_propensities=1 / self.propensities)
            values.append(metric(matches))
        return np.array(values)


@pytest.fixture(scope="module")
def planted() -> Planted:
    return Planted()


def standard_errors_off(estimates: np.ndarray, truth: float) -> float:
    return float(abs(estimates.mean() - truth) / (estimates.std(ddof=1) / np.sqrt(estimates.size)))


@pytest.mark.parametrize("k", [1, 3, 5])
def test_propensity_scored_precision_is_unbiased_and_plain_precision_is_not(planted: Planted, k: int) -> None:
    truth = metrics.score(planted.complete_matches(), f"P@{k}")
    keep = planted.propensities[planted.complete.indices]
    both = planted.estimates(keep, lambda m: (metrics.score(m, f"unbiased-P@{k}"), metrics.score(m, f"P@{k}")))
    assert standard_errors_off(both[:, 0], truth) < 3
    assert standard_errors_off(both[:, 1], truth) > 10
    assert both[:, 1].mean() < truth


@pytest.mark.parametrize("name", ["unbiased-nDCG@5", "hamming"])
def test_other_sums_over_labels_are_unbiased(planted: Planted, name: str) -> None:
    def metric(matches: Matches) -> float:
        return metrics.unbiased_hamming(matches, 5).value if name == "hamming" else metrics.score(matches, name)

    keep = planted.propensities[planted.complete.indices]
    assert standard_errors_off(planted.estimates(keep, metric), metric(planted.complete_matches())) < 3


@pytest.mark.parametrize(
    "metric", [metrics.unbiased_recall, metrics.unbiased_mrr, metrics.unbiased_adg, metrics.unbiased_f]
)
def test_estimates_with_known_counts_are_unbiased(planted: Planted, metric) -> None:
    known = KnownCounts(planted.sizes)
    truth = metric(planted.complete_matches(), 5, known).value  # with p = 1 this is the metric itself
    keep = planted.propensities[planted.complete.indices]
    assert standard_errors_off(planted.estimates(keep, lambda m: metric(m, 5, known).value), truth) < 3


@pytest.mark.parametrize("metric", [metrics.unbiased_recall, metrics.unbiased_mrr, metrics.unbiased_adg])
def test_estimates_with_known_retention_are_unbiased(planted: Planted, metric) -> None:
    truth = metric(planted.complete_matches(), 5, KnownCounts(planted.sizes)).value
    keep = planted.retention[planted.complete.indices] / np.repeat(planted.sizes, planted.sizes)
    known = KnownRetention(planted.retention)
    assert standard_errors_off(planted.estimates(keep, lambda m: metric(m, 5, known).value), truth) < 3


def test_plain_recall_is_off_where_labels_are_missing(planted: Planted) -> None:
    truth = metrics.score(planted.complete_matches(), "R@5")
    keep = planted.propensities[planted.complete.indices]
    assert standard_errors_off(planted.estimates(keep, lambda m: metrics.score(m, "R@5")), truth) > 10
