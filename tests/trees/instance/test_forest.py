"""Whole trees: how they are grown, joined, saved, and used for prediction."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

import longtail
from longtail.core.predictions import Predictions
from longtail.trees.instance.descend import top_of_forest
from longtail.trees.instance.forest import Forest
from longtail.trees.instance.grow import Grower, GrowOptions
from longtail.trees.instance.products import add_product
from longtail.trees.instance.tail import Centres, Classifiers
from trees.instance.plain import leaf_of, mean_of_leaves, ranked_by_margins, ranked_by_means


@pytest.fixture(scope="module")
def data():
    return longtail.make_longtail(400, 300, 40, n_test_points=30, random_state=3)


@pytest.fixture(scope="module")
def grower(data):
    weights = np.linspace(1, 4, data.train.n_labels)
    options = GrowOptions(max_leaf=10, labels_per_leaf=100, C=4.0, bias=1.0)
    return Grower(data.train.X, data.train.Y, options, label_weights=weights, seed=5)


@pytest.fixture(scope="module")
def forest(grower):
    return Forest.joined([grower.grow(number) for number in range(3)])


def test_every_leaf_holds_the_labels_of_the_points_that_reach_it(data, grower):
    tree = grower.grow(0)
    X, Y = data.train.X.toarray(), data.train.Y.toarray()
    reached = np.array([leaf_of(tree, 0, x) for x in X])
    leaves = np.flatnonzero(tree.children[:, 0] < 0)
    np.testing.assert_array_equal(np.unique(reached), leaves)
    assert leaves.size > 20
    sizes = np.bincount(reached)[leaves]
    assert np.median(sizes) <= 10
    for leaf in leaves:
        mean = Y[reached == leaf].mean(axis=0) * np.linspace(1, 4, data.train.n_labels)
        np.testing.assert_allclose(tree.leaves[[leaf]].toarray()[0], mean, rtol=1e-5)
        assert tree.hyperplanes[[leaf]].nnz == 0
    inner = np.flatnonzero(tree.children[:, 0] >= 0)
    assert all(tree.leaves[[node]].nnz == 0 for node in inner)


def test_every_node_but_the_root_is_a_child_once(forest):
    children = np.sort(forest.children[forest.children >= 0])
    np.testing.assert_array_equal(np.sort(np.concatenate([children, forest.roots])), np.arange(forest.n_nodes))


def test_trees_differ_by_number_and_by_seed_only(data, grower):
    again = Grower(data.train.X, data.train.Y, grower.options, label_weights=np.linspace(1, 4, 40), seed=5)
    other = Grower(data.train.X, data.train.Y, grower.options, label_weights=np.linspace(1, 4, 40), seed=6)
    one = grower.grow(1)
    assert (one.hyperplanes != again.grow(1).hyperplanes).nnz == 0
    for different in (grower.grow(2), other.grow(1)):
        assert different.n_nodes != one.n_nodes or (different.hyperplanes != one.hyperplanes).nnz


def test_a_forest_survives_its_state(forest):
    for copy in (
        Forest.from_state(forest.to_state(), forest.hyperplanes.shape[1], forest.leaves.shape[1]),
        Forest.from_arrays(forest.to_state().arrays, forest.hyperplanes.shape[1], forest.leaves.shape[1]),
    ):
        np.testing.assert_array_equal(copy.children, forest.children)
        np.testing.assert_array_equal(copy.roots, forest.roots)
        np.testing.assert_array_equal(copy.intercepts, forest.intercepts)
        assert copy.hyperplanes.shape == forest.hyperplanes.shape
        assert (copy.hyperplanes != forest.hyperplanes).nnz == 0
        assert (copy.leaves != forest.leaves).nnz == 0


def test_prediction_is_the_mean_of_the_leaves(data, forest):
    found = top_of_forest(data.test.X, forest, 10, n_jobs=1)
    shares = mean_of_leaves(forest, data.test.X.toarray())
    for labels, scores, share in zip(found.labels, found.scores, shares, strict=True):
        expected = np.lexsort((np.arange(40), -share.astype(np.float32)))
        n = min(10, np.count_nonzero(share))
        assert (labels[:n] >= 0).all()
        assert (labels[n:] == -1).all()
        np.testing.assert_allclose(scores[:n], share[expected[:n]], rtol=1e-5)
        np.testing.assert_allclose(share[labels[:n]], scores[:n], rtol=1e-5)


def test_points_with_few_features_go_where_long_hyperplanes_send_them():
    rng = np.random.default_rng(0)
    hyperplane = sparse.random(1, 2000, 0.5, "csr", np.float32, random_state=rng)
    hyperplane.data -= 0.5
    forest = Forest(
        roots=np.zeros(1, np.int32),
        children=np.array([[1, 2], [-1, -1], [-1, -1]], np.int32),
        intercepts=np.array([0.05, 0, 0], np.float32),
        hyperplanes=sparse.vstack([hyperplane, sparse.csr_matrix((2, 2000), dtype=np.float32)], format="csr"),
        leaves=sparse.csr_matrix(np.array([[0, 0], [1, 0], [0, 1]], np.float32)),
    )
    X = sparse.random(300, 2000, 0.002, "csr", np.float32, random_state=rng)  # about four features, some rows none
    X.sort_indices()
    assert {0, 1, 4} < set(np.diff(X.indptr).tolist())
    margins = (X @ hyperplane.T).toarray()[:, 0] + np.float32(0.05)
    assert 50 < (margins > 0).sum() < 250
    np.testing.assert_array_equal(top_of_forest(X, forest, 1).labels[:, 0], margins > 0)


@pytest.mark.parametrize(("alpha", "gamma"), [(0.8, 30.0), (0.3, 5.0), (0.0, 30.0)])
def test_tail_classifiers_rank_by_the_formula_of_the_paper(data, forest, alpha, gamma):
    X, Y = data.train.X.toarray(), data.train.Y.toarray()
    centres = Centres.of(data.train.X, data.train.Y)
    found = top_of_forest(data.test.X, forest, 8, tail=centres, alpha=alpha, gamma=gamma)
    shares = mean_of_leaves(forest, data.test.X.toarray())
    for row, x in enumerate(data.test.X.toarray()):
        scores = ranked_by_means(shares[row], X.astype(np.float64), Y, x.astype(np.float64), alpha, gamma)
        best = np.sort(scores)[::-1][:8]
        kept = found.labels[row] >= 0
        np.testing.assert_allclose(found.scores[row][kept], best[np.isfinite(best)], rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(scores[found.labels[row][kept]], found.scores[row][kept], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("alpha", [0.8, 0.3, 0.0, 1.0])
@pytest.mark.parametrize("density", [0.5, 1.0])
def test_linear_tail_classifiers_rank_as_their_plain_twin(data, forest, alpha, density):
    rng = np.random.default_rng(3)
    weights = sparse.random(40, data.train.X.shape[1], density, "csr", np.float32, random_state=rng)
    weights.data = rng.normal(0, 2, weights.nnz).astype(np.float32)
    tail = Classifiers(weights, rng.normal(0, 1, 40).astype(np.float32))
    few = data.test.X[:40]
    found = top_of_forest(few, forest, 8, tail=tail, alpha=alpha)
    shares = mean_of_leaves(forest, few.toarray())
    for row, x in enumerate(few.toarray().astype(np.float64)):
        scores = ranked_by_margins(shares[row], weights.toarray().astype(np.float64), tail.intercepts, x, alpha)
        best = np.sort(scores)[::-1][:8]
        kept = found.labels[row] >= 0
        np.testing.assert_allclose(found.scores[row][kept], best[np.isfinite(best)], rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(scores[found.labels[row][kept]], found.scores[row][kept], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("n_features", [0, 1, 7, 150])
def test_products_are_those_of_dense_vectors(n_features):
    rng = np.random.default_rng(n_features)
    for length in (0, 1, 30, 1000):
        own, row = (np.sort(rng.choice(2000, n, replace=False)).astype(np.int32) for n in (n_features, length))
        values, weights = rng.random(n_features, np.float32), rng.normal(0, 1, length).astype(np.float32)
        dense, spread = np.zeros(2000, np.float32), np.zeros(2000, np.float32)
        dense[own], spread[row] = values, weights
        found = add_product(np.float32(0.5), (own, values, dense), row, weights)
        np.testing.assert_allclose(found, 0.5 + dense @ spread, rtol=1e-4, atol=1e-5)


def test_one_tree_with_a_single_leaf(data):
    options = GrowOptions(max_leaf=1000, labels_per_leaf=3, C=2.0, bias=1.0)
    tree = Grower(data.train.X, data.train.Y, options, label_weights=np.ones(40), seed=0).grow(0)
    assert tree.n_nodes == 1
    counts = data.train.label_counts
    by_count = np.lexsort((np.arange(40), -counts))[:3]
    found: Predictions = top_of_forest(data.test.X, tree, 5)
    assert (found.labels == [*by_count, -1, -1]).all()
    np.testing.assert_allclose(found.scores[:, 0], counts[by_count[0]] / 400, rtol=1e-6)
