"""Search among label vectors: exact search against a plain sort, codes against exact search."""

from __future__ import annotations

import logging
import sys

import numpy as np
import pytest

import longtail.neural.mips as mips
from longtail.core.predictions import Predictions
from longtail.errors import MissingExtraError
from longtail.neural.mips import Codes, LabelSearch, recall_of


def unit(vectors):
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


@pytest.fixture(scope="module")
def clustered():
    """4,000 labels around 80 topics, and points near labels."""
    rng = np.random.default_rng(0)
    topics = rng.standard_normal((80, 32))
    labels = unit(topics[rng.integers(80, size=4000)] + 0.5 * rng.standard_normal((4000, 32)))
    points = unit(labels[rng.integers(4000, size=300)] + 0.1 * rng.standard_normal((300, 32)))
    return labels, points


def plain_top(labels, points, k):
    scores = points.astype(np.float64) @ labels.astype(np.float64).T
    return np.argsort(-scores, axis=1, kind="stable")[:, :k]


def test_exact_search_is_a_sort(clustered, monkeypatch):
    labels, points = clustered
    expected = plain_top(labels, points, 7)
    np.testing.assert_array_equal(LabelSearch(labels).top(points, 7).labels, expected)
    monkeypatch.setattr(mips, "_SCORES_AT_ONCE", 4000 * 7)  # several blocks
    found = LabelSearch(labels).top(points, 7)
    np.testing.assert_array_equal(found.labels, expected)
    np.testing.assert_allclose(found.scores[:, 0], (points * labels[expected[:, 0]]).sum(1), rtol=1e-5)


def test_equal_scores_come_in_the_order_of_the_labels():
    labels = unit(np.tile([[1.0, 0.0], [0.0, 1.0]], (3, 1)))
    found = LabelSearch(labels).top(unit(np.array([[1.0, 0.1]])), 6)
    assert found.labels.tolist() == [[0, 2, 4, 1, 3, 5]]


def test_codes_find_the_share_that_was_asked_for_and_say_so(clustered, monkeypatch):
    labels, points = clustered
    exact = LabelSearch(labels).top(points[150:], 5)
    monkeypatch.setattr(mips, "_PIECES", 4)  # coarse codes, so that 50 candidates are too few
    few = LabelSearch(labels, Codes(mips._trained_centroids(labels), 50, 0.0))
    assert recall_of(few.top(points[150:], 5), exact) < 0.95
    search = LabelSearch.build(labels, points[:150], kind="codes", recall=0.995, n_jobs=1)
    assert search.codes.recall >= 0.995
    assert 50 < search.codes.candidates < 4000
    found = search.top(points[150:], 5, n_jobs=1)  # points it was not measured on
    assert recall_of(found, exact) >= 0.98
    np.testing.assert_allclose(found.scores[:, 0], (points[150:] * labels[found.labels[:, 0]]).sum(1), rtol=1e-5)


def test_recall_counts_labels_that_are_as_good():
    def predictions(scores):
        return Predictions(np.tile(np.arange(3), (2, 1)), np.array(scores, np.float32))

    exact = predictions([[0.9, 0.8, 0.7], [0.5, 0.4, 0.3]])
    assert recall_of(predictions([[0.9, 0.7, 0.6], [0.5, 0.4, 0.3]]), exact) == pytest.approx(5 / 6)


def test_a_saved_search_answers_as_before(clustered):
    labels, points = clustered
    search = LabelSearch.build(labels, points, kind="codes", n_jobs=1)
    again = LabelSearch.from_state(search.state())
    np.testing.assert_array_equal(search.top(points, 5).labels, again.top(points, 5).labels)
    assert (again.codes.candidates, again.codes.recall) == (search.codes.candidates, search.codes.recall)


def test_many_labels_a_point_are_searched_exactly(clustered):
    labels, points = clustered
    search = LabelSearch.build(labels, points, kind="codes", n_jobs=1)
    np.testing.assert_array_equal(search.top(points[:5], 101).labels, plain_top(labels, points[:5], 101))


def test_few_labels_are_searched_exactly_and_many_by_codes(clustered, monkeypatch):
    labels, points = clustered
    assert LabelSearch.build(labels, points).codes is None
    monkeypatch.setattr(mips, "EXACT_UP_TO", 1000)
    assert LabelSearch.build(labels, points, n_jobs=1).codes is not None


def test_without_faiss_search_is_exact_with_a_word_or_an_error_where_codes_are_asked_for(
    clustered, monkeypatch, caplog
):
    labels, points = clustered
    monkeypatch.setitem(sys.modules, "faiss", None)
    monkeypatch.setattr(mips, "EXACT_UP_TO", 1000)
    monkeypatch.setattr(mips.importlib.util, "find_spec", lambda name: None)
    with caplog.at_level(logging.WARNING, "longtail"):
        assert LabelSearch.build(labels, points).codes is None
    assert "faiss is not installed" in caplog.text
    with pytest.raises(MissingExtraError, match=r"longtail\[deep\]"):
        LabelSearch.build(labels, points, kind="codes")
