"""Search over label vectors: exact search against a plain sort, codes against exact search."""

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


def test_codes_reach_the_requested_recall_and_report_it(clustered, monkeypatch):
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


def plain_codes(labels, centroids):
    """Replace each piece of a label vector by its nearest centroid."""
    pieces = labels.reshape(len(labels), len(centroids), -1)
    distances = ((pieces[:, :, None, :] - centroids[None]) ** 2).sum(-1)
    nearest = distances.argmin(-1)
    return centroids[np.arange(len(centroids)), nearest].reshape(labels.shape)


def test_candidates_are_the_best_by_code_up_to_the_rounding_of_the_tables(clustered, monkeypatch):
    """FAISS's scan against a plain one: it only rounds the products of each piece to a byte."""
    labels, points = clustered
    monkeypatch.setattr(mips, "_PIECES", 8)
    centroids = mips._trained_centroids(labels)
    approximate = points @ plain_codes(labels, centroids).T
    tables = np.einsum("npv,pcv->npc", points.reshape(len(points), len(centroids), -1), centroids)
    rounding = len(centroids) * (tables.max(2) - tables.min(2)).max(1) / 255
    found = LabelSearch(labels, Codes(centroids, 50, 0.0))._index.search(points, 50)[1]
    fiftieth = np.sort(approximate, axis=1)[:, -50]
    chosen = np.take_along_axis(approximate, found, 1)
    assert (chosen >= (fiftieth - 2 * rounding)[:, None]).all()
    assert rounding.max() < 0.5 * approximate.std()  # much less than the differences between labels
    assert all(len(set(row)) == 50 for row in found.tolist())


def test_a_search_with_every_label_a_candidate_is_exact(clustered):
    labels, points = clustered
    search = LabelSearch(labels, Codes(mips._trained_centroids(labels), len(labels), 0.0))
    np.testing.assert_array_equal(search.top(points, 7, n_jobs=1).labels, plain_top(labels, points, 7))


@pytest.mark.parametrize("n_labels", [1, 15, 16, 40])
def test_codes_work_with_few_labels(clustered, capfd, n_labels):
    labels, points = clustered
    search = LabelSearch.build(labels[:n_labels], points, kind="codes", n_jobs=1)
    np.testing.assert_array_equal(search.top(points, 1).labels, plain_top(labels[:n_labels], points, 1))
    assert capfd.readouterr().err == ""


def test_a_point_among_many_finds_by_codes_what_it_finds_alone(clustered):
    labels, points = clustered
    search = LabelSearch.build(labels, points, kind="codes", n_jobs=1)
    together = search.top(points, 5, n_jobs=1)
    for i in range(0, 300, 7):
        alone = search.top(points[i : i + 1], 5, n_jobs=1)
        np.testing.assert_array_equal(alone.labels[0], together.labels[i])
        np.testing.assert_array_equal(alone.scores[0], together.scores[i])


def test_the_callers_threads_are_left_alone(clustered):
    import faiss

    labels, points = clustered
    before = faiss.omp_get_max_threads()
    LabelSearch.build(labels, points, kind="codes", n_jobs=before + 1).top(points, 5, n_jobs=before + 2)
    assert faiss.omp_get_max_threads() == before


def test_recall_counts_labels_that_are_as_good():
    def predictions(scores):
        return Predictions(np.tile(np.arange(3), (2, 1)), np.array(scores, np.float32))

    exact = predictions([[0.9, 0.8, 0.7], [0.5, 0.4, 0.3]])
    assert recall_of(predictions([[0.9, 0.7, 0.6], [0.5, 0.4, 0.3]]), exact) == pytest.approx(5 / 6)


def test_a_saved_search_answers_as_before(clustered):
    labels, points = clustered
    search = LabelSearch.build(labels, points, kind="codes", n_jobs=1)
    again = LabelSearch.from_state(search.state(), len(labels))
    np.testing.assert_array_equal(search.top(points, 5).labels, again.top(points, 5).labels)
    assert (again.codes.candidates, again.codes.recall) == (search.codes.candidates, search.codes.recall)


def test_many_labels_per_point_are_searched_exactly(clustered):
    labels, points = clustered
    search = LabelSearch.build(labels, points, kind="codes", n_jobs=1)
    np.testing.assert_array_equal(search.top(points[:5], 101).labels, plain_top(labels, points[:5], 101))


def test_few_labels_are_searched_exactly_and_many_by_codes(clustered, monkeypatch):
    labels, points = clustered
    assert LabelSearch.build(labels, points).codes is None
    monkeypatch.setattr(mips, "EXACT_UP_TO", 4000 * 32 - 1)
    assert LabelSearch.build(labels, points, n_jobs=1).codes is not None


def test_without_faiss_search_is_exact_with_a_warning_and_codes_are_an_error(clustered, monkeypatch, caplog):
    labels, points = clustered
    monkeypatch.setitem(sys.modules, "faiss", None)
    monkeypatch.setattr(mips, "EXACT_UP_TO", 4000 * 32 - 1)
    monkeypatch.setattr(mips.importlib.util, "find_spec", lambda name: None)
    with caplog.at_level(logging.WARNING, "longtail"):
        assert LabelSearch.build(labels, points).codes is None
    assert "faiss is not installed, so each point is compared with all 4000 labels" in caplog.text
    with pytest.raises(MissingExtraError, match=r"longtail\[deep\]"):
        LabelSearch.build(labels, points, kind="codes")
