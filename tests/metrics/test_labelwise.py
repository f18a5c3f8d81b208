from __future__ import annotations

import numpy as np
import pytest

from longtail.errors import ParameterError
from longtail.metrics import BAND_NAMES, Matches, by_band, frequency_bands, label_table
from metrics.cases import PAPER_PREDICTIONS, PAPER_Y, predictions


@pytest.fixture
def matches() -> Matches:
    return Matches.of(predictions(PAPER_PREDICTIONS), PAPER_Y)


def named(bands: np.ndarray) -> list[str]:
    return [BAND_NAMES[band] for band in bands]


def test_bands_by_hand() -> None:
    # 100 occurrences; by falling count 40 | 20 | 20 | 10 | 9 | 1 | 0, which begin at 0, 40, 40, 80, 90, 99, 100
    counts = [10, 40, 0, 20, 1, 20, 9]
    assert named(frequency_bands(counts)) == ["torso", "head", "tail", "head", "tail", "head", "tail"]
    assert named(frequency_bands(counts, head=0.4)) == ["tail", "head", "tail", "torso", "tail", "torso", "tail"]
    assert named(frequency_bands(counts, head=1.0, torso=0.0)) == ["head", "head", "tail", *["head"] * 4]


def test_bands_at_the_edges() -> None:
    assert named(frequency_bands([0, 5, 1], head=0.9, torso=0.1)) == ["tail", "head", "head"]
    assert named(frequency_bands([0, 0])) == ["tail", "tail"]
    assert named(frequency_bands([3, 3, 3])) == ["head"] * 3, "labels of one count share a band"
    assert frequency_bands(np.empty(0, np.int64)).size == 0
    shuffled = np.random.default_rng(0).permutation(50)
    counts = np.arange(50) ** 2
    np.testing.assert_array_equal(frequency_bands(counts[shuffled]), frequency_bands(counts)[shuffled])


@pytest.mark.parametrize(
    ("counts", "options", "message"),
    [
        ([1, -1], {}, "whole number >= 0"),
        ([1.5, 2.0], {}, "whole number >= 0"),
        ([[1], [2]], {}, "whole number >= 0"),
        ([1, 2], {"head": 0.9}, "sum at most 1"),
        ([1, 2], {"head": -0.1}, "sum at most 1"),
    ],
)
def test_bands_that_cannot_be(counts, options, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        frequency_bands(counts, **options)


def test_report_by_band(matches: Matches) -> None:
    # training counts of labels 0..3 begin at 0, 60, 90, 98 of 100; label 4 is beyond them: never seen
    report = by_band(matches, 3, [60, 30, 8, 2])
    assert list(report) == ["head", "torso", "tail"]
    assert report["head"] == pytest.approx(
        {
            "labels": 1,
            "share of test labels": 1 / 5,
            "share of predictions": 2 / 8,
            "recall": 1,
            "precision": 1 / 2,
            "coverage": 1,
        }
    )
    assert report["torso"] == pytest.approx(
        {
            "labels": 1,
            "share of test labels": 0,
            "share of predictions": 2 / 8,
            "recall": 0,
            "precision": 0,
            "coverage": 0,
        }
    )
    # tail: labels 2, 3, 4 occur 1 + 1 + 2 times, are predicted 2 + 1 + 1 times, hit 1 + 0 + 1 times
    assert report["tail"] == pytest.approx(
        {
            "labels": 3,
            "share of test labels": 4 / 5,
            "share of predictions": 4 / 8,
            "recall": 2 / 4,
            "precision": 2 / 4,
            "coverage": 2 / 3,
        }
    )


def test_label_table(matches: Matches) -> None:
    table = label_table(matches, 2, [60, 30, 8, 2, 1, 5])
    assert table.dtype.names == (
        "label", "training_count", "test_count", "predicted_count", "hits", "precision", "recall", "f1",
    )  # fmt: skip
    assert table.tolist() == [
        (0, 60, 1, 2, 1, 1 / 2, 1.0, 2 / 3),
        (1, 30, 0, 1, 0, 0.0, 0.0, 0.0),
        (2, 8, 1, 1, 0, 0.0, 0.0, 0.0),
        (3, 2, 1, 1, 0, 0.0, 0.0, 0.0),
        (4, 1, 2, 1, 1, 1.0, 1 / 2, 2 / 3),
        (5, 5, 0, 0, 0, 0.0, 0.0, 0.0),
    ]
    assert label_table(matches, 2, [60])["training_count"].tolist() == [60, 0, 0, 0, 0]
