"""Prediction is exact: the same as scoring every label densely, ties to the lower id."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from linear.twins import synthetic
from longtail import DiSMEC
from longtail.linear.scorer import MANY_POINTS, LinearScorer
from longtail.linear.simd import BLOCK

# One by one, just below and at the number of points from which tiles of labels are used, and in several batches.
POINTS = [1, 7, MANY_POINTS - 1, MANY_POINTS, 3 * MANY_POINTS + 5]
# Fewer labels than a block, full blocks, some over, and more than one thread's share of tiles.
LABELS = [1, 5, BLOCK, BLOCK + 1, 8 * BLOCK, 8 * BLOCK + 3, 20 * BLOCK]


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


@pytest.mark.parametrize("n_points", POINTS)
@pytest.mark.parametrize("n_labels", LABELS)
def test_top_k_is_that_of_dense_scores(n_points, n_labels):
    X, weights, intercepts = whole_numbers(n_points, n_labels)
    scorer = LinearScorer(weights, intercepts)
    for k in {1, min(5, n_labels), n_labels}:
        labels, scores = brute_force(X, weights, intercepts, k)
        for n_jobs in (1, 2):
            found = scorer.top(X, k, n_jobs=n_jobs)
            np.testing.assert_array_equal(found.labels, labels)
            np.testing.assert_array_equal(found.scores, scores)


def test_equal_scores_go_by_label_id():
    empty = sparse.csr_matrix((30, 100), dtype=np.float32)
    for n_points in (3, MANY_POINTS):
        found = LinearScorer(empty, np.zeros(100, np.float32)).top(
            sparse.csr_matrix((n_points, 30), dtype=np.float32), 4
        )
        np.testing.assert_array_equal(found.labels, [[0, 1, 2, 3]] * n_points)


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


def test_single_points_and_batches_agree(model):
    """The two ways add in different orders: scores agree up to rounding, labels wherever scores are not close."""
    model, X = model
    together = model.predict(X, k=5)
    for i in range(0, X.shape[0], 29):
        alone = model.predict(X[i : i + 1], k=5)
        np.testing.assert_allclose(alone.scores[0], together.scores[i], rtol=1e-5, atol=1e-5)
        apart = np.abs(np.diff(together.scores[i])).min() > 1e-4
        if apart:
            np.testing.assert_array_equal(alone.labels[0], together.labels[i])


def test_points_without_features_get_the_intercepts(model):
    model, X = model
    for n_points in (2, MANY_POINTS):
        found = model.predict(sparse.csr_matrix((n_points, X.shape[1]), dtype=np.float32), k=3)
        best = np.lexsort((np.arange(model.n_labels_), -model.intercept_))[:3]
        np.testing.assert_array_equal(found.labels, [best] * n_points)
        np.testing.assert_array_equal(found.scores, [model.intercept_[best]] * n_points)


def test_probabilities_of_the_logistic_loss_are_those_of_the_margins():
    X, Y = synthetic()
    model = DiSMEC(loss="logistic", C=100).fit(X, Y)
    margins = X.toarray().astype(np.float64) @ model.weights_.toarray() + model.intercept_
    found = model.predict(X * 50, k=4)  # far-off margins must not overflow on the way
    assert ((found.scores >= 0) & (found.scores <= 1)).all()
    found = model.predict(X, k=4)
    expected = -np.sort(-1 / (1 + np.exp(-margins)), axis=1)[:, :4]
    np.testing.assert_allclose(found.scores, expected, rtol=1e-3, atol=1e-5)
