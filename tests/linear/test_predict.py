"""Prediction is exact: the same as scoring every label densely, ties to the lower id."""

from __future__ import annotations

import numpy as np
import pytest
from numba import njit
from scipy import sparse

from linear.twins import synthetic
from longtail import DiSMEC
from longtail.linear import half, scorer
from longtail.linear.scorer import LinearScorer
from longtail.linear.weights import Weights, raw

POINTS = [1, 7, 64, 130]  # alone, and in one and several pieces of work
LABELS = [1, 5, 127, 128, 129, 700]  # less and more than are compared at a time


def whole_numbers(n_points, n_labels, n_features=30, seed=0):
    """Return small whole numbers: every sum is exact in float32 in any order, and there are many ties."""
    rng = np.random.default_rng(seed)
    features = rng.integers(-2, 3, (n_points, n_features)) * (rng.random((n_points, n_features)) < 0.3)
    weights = rng.integers(-3, 4, (n_features, n_labels)) * (rng.random((n_features, n_labels)) < 0.3)
    features[n_points // 2] = 0
    intercepts = rng.integers(-1, 2, n_labels).astype(np.float32)
    as_csr = (sparse.csr_matrix(part.astype(np.float32)) for part in (features, weights))
    return *as_csr, intercepts


def brute_force(X, weights, intercepts, k):
    scores = X.toarray() @ weights.toarray() + intercepts
    labels = np.lexsort((np.broadcast_to(np.arange(scores.shape[1]), scores.shape), -scores), axis=1)[:, :k]
    return labels, np.take_along_axis(scores, labels, axis=1)


def scorer_of(weights, intercepts, dtype="float16"):
    return LinearScorer(Weights.of_labels(weights.indptr, weights.indices, weights.data.astype(dtype), intercepts))


@pytest.mark.parametrize("dense_from", [0, 0.3, 2])  # all features, some, and none have a dense row
@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize("n_labels", LABELS)
def test_top_k_is_that_of_dense_scores(n_labels, dtype, dense_from, monkeypatch):
    monkeypatch.setattr(scorer, "_DENSE", dense_from)
    monkeypatch.setattr(scorer, "_MOST_DENSE", 1000)
    for n_points in POINTS:
        X, weights, intercepts = whole_numbers(n_points, n_labels)
        ranker = scorer_of(weights, intercepts, dtype)
        for k in {1, min(5, n_labels), n_labels}:
            labels, scores = brute_force(X, weights, intercepts, k)
            for n_jobs in (1, 2):
                found = ranker.top(X, k, n_jobs=n_jobs)
                np.testing.assert_array_equal(found.labels, labels)
                np.testing.assert_array_equal(found.scores, scores)


def test_equal_scores_go_by_label_id():
    empty = sparse.csr_matrix((30, 100), dtype=np.float32)
    found = scorer_of(empty, np.zeros(100, np.float32)).top(sparse.csr_matrix((3, 30), dtype=np.float32), 4)
    np.testing.assert_array_equal(found.labels, [[0, 1, 2, 3]] * 3)


def test_labels_that_share_a_classifier_rank_by_id_among_the_others():
    """Labels 1, 4 and 6 share a classifier; label 2 has its score by chance, label 3 no training points."""
    X = sparse.csr_matrix(np.array([[1.0]], np.float32))
    shared = Weights(
        np.array([0, 4]), np.array([0, 1, 2, 3], np.uint16), np.array([1, 5, 5, 2], np.float16),
        np.zeros(4, np.float32), np.array([0, 1, 2, -1, 1, 3, 1], np.int32),
    )  # fmt: skip
    for k, expected in ((1, [1]), (3, [1, 2, 4]), (7, [1, 2, 4, 6, 5, 0, -1])):
        assert LinearScorer(shared).top(X, k).labels.tolist() == [expected]
    assert shared.to_csr().toarray().tolist() == [[1, 5, 5, 0, 5, 2, 5]]
    assert np.isneginf(shared.label_intercepts()).tolist() == [False, False, False, True, False, False, False]


@pytest.mark.parametrize("converts", [True, False])
def test_half_precision_is_read_exactly(converts, monkeypatch):
    """Every number that float16 has, subnormal ones included, by the processor's conversion and by shifts."""
    if converts and not half._CONVERTS:
        pytest.skip("this processor does not convert half precision")
    monkeypatch.setattr(half, "_CONVERTS", converts)
    numbers = np.arange(2**16, dtype=np.uint16).view(np.float16)
    numbers = numbers[np.isfinite(numbers)]

    @njit
    def converted(bits, found):
        for j in range(bits.shape[0]):
            found[j] = half.as_float(bits[j])

    found = np.empty(numbers.size, np.float32)
    converted(raw(numbers), found)
    np.testing.assert_array_equal(found, numbers.astype(np.float32))


def test_dense_rows_stay_within_their_room():
    """However dense the weights are, dense rows take at most a fixed multiple of their memory."""
    weights = sparse.random(400, 2000, 0.06, format="csr", random_state=0, dtype=np.float32)
    ranker = scorer_of(weights, np.zeros(2000, np.float32))
    place, rows = ranker._dense
    assert 0 < rows.nbytes <= scorer._MOST_DENSE * ranker.weights.values.nbytes
    assert (place >= 0).sum() == rows.shape[0]


@pytest.fixture(scope="module")
def model():
    X, Y = synthetic(n_points=600)
    return DiSMEC(weighting="pw").fit(X, Y), X


def test_a_fitted_model_ranks_as_its_dense_scores(model):
    model, X = model
    scores = X.toarray() @ model.weights_.toarray() + model.intercept_
    found = model.predict(X, k=model.n_labels_)
    np.testing.assert_allclose(found.scores, -np.sort(-scores, axis=1), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(np.take_along_axis(scores, found.labels, axis=1), found.scores, rtol=1e-4, atol=1e-5)


def test_single_points_and_batches_agree_bit_for_bit(model):
    model, X = model
    together = model.predict(X, k=5)
    for i in range(0, X.shape[0], 29):
        alone = model.predict(X[i : i + 1], k=5)
        np.testing.assert_array_equal(alone.scores[0], together.scores[i])
        np.testing.assert_array_equal(alone.labels[0], together.labels[i])


@pytest.mark.parametrize("dense_from", [0, 0.3, 2])
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_numpy_scores_one_point_as_the_kernels_do_bit_for_bit(dtype, dense_from, monkeypatch):
    monkeypatch.setattr(scorer, "_DENSE", dense_from)
    rng = np.random.default_rng(3)
    weights = sparse.random(60, 90, 0.3, format="csr", random_state=rng, dtype=np.float32)
    weights.data -= 0.5
    of_label = rng.permutation(np.r_[np.arange(90), rng.integers(0, 90, 40), [-1] * 5]).astype(np.int32)
    kept = Weights(
        weights.indptr.astype(np.int64), weights.indices.astype(np.uint16), weights.data.astype(dtype),
        rng.normal(size=90).round(1).astype(np.float32), of_label,
    )  # fmt: skip
    X = sparse.random(20, 60, 0.4, format="csr", random_state=rng, dtype=np.float32)
    X.sort_indices()
    ranker = LinearScorer(kept)
    for k in (1, 7, of_label.size):
        together = ranker.top(X, k)
        for i in range(X.shape[0]):
            alone = ranker._top_of_one(X[i], k)
            assert alone.labels.tobytes() == together.labels[i].tobytes()
            assert alone.scores.tobytes() == together.scores[i].tobytes()


def test_kernels_are_loaded_once_single_points_are_no_exception(monkeypatch):
    X, weights, intercepts = whole_numbers(1, 5)
    ranker, plain = scorer_of(weights, intercepts), []
    monkeypatch.setattr(ranker, "_top_of_one", lambda X, k: plain.append(k))
    for _ in range(5):
        ranker.top(X, 2)
    assert len(plain) == scorer._SINGLE_POINTS


def test_points_without_features_get_the_intercepts(model):
    model, X = model
    found = model._shards.top(sparse.csr_matrix((2, X.shape[1]), dtype=np.float32), 3)
    best = np.lexsort((np.arange(model.n_labels_), -model.intercept_))[:3]
    np.testing.assert_array_equal(found.labels, [best] * 2)
    np.testing.assert_array_equal(found.scores, [model.intercept_[best]] * 2)


def test_probabilities_of_the_logistic_loss_are_those_of_the_margins():
    X, Y = synthetic()
    model = DiSMEC(loss="logistic", C=100).fit(X, Y)
    margins = X.toarray().astype(np.float64) @ model.weights_.toarray() + model.intercept_
    found = model.predict(X * 50, k=4)  # far-off margins must not overflow on the way
    assert ((found.scores >= 0) & (found.scores <= 1)).all()
    found = model.predict(X, k=4)
    expected = -np.sort(-1 / (1 + np.exp(-margins)), axis=1)[:, :4]
    np.testing.assert_allclose(found.scores, expected, rtol=1e-3, atol=1e-5)
