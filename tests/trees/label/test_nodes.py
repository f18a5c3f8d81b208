"""The classifiers of a node: which points they train on, and that they are optimal for these."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from sklearn.svm import LinearSVC

from longtail import DiSMEC
from longtail.objectives import PW, Unweighted
from longtail.trees.label.clustering import two_balanced_clusters
from longtail.trees.label.nodes import NodeTrainer
from longtail.trees.label.representation import label_representation
from longtail.trees.label.tree import grow
from trees.label.plain import grouped_points

X, Y = grouped_points(200)


def small_tree(max_leaf=6):
    rows = label_representation(X, Y, "pifa")
    split = lambda labels, rng: two_balanced_clusters(rows, labels, rng)  # noqa: E731
    return grow(np.arange(24, dtype=np.int32), split, max_leaf=max_leaf, max_depth=None, seed=0, n_jobs=1)


def problem_of(tree, node):
    """Return the points of a node, and for each child which of them have a label below it, directly from Y."""
    edges = range(tree.child_start[node], tree.child_start[node + 1])
    dense = Y.toarray() > 0
    carries = np.stack([dense[:, tree.order[slice(*tree.below[e])]].any(axis=1) for e in edges])
    points = np.flatnonzero(carries.any(axis=0))
    return points, carries[:, points]


def objective(w, rows, positive, own):
    margin = np.where(positive, 1, -1) * (rows @ w)
    return 0.5 * w @ w + (np.where(positive, own, 1.0) * np.maximum(1 - margin, 0) ** 2).sum()


@pytest.mark.parametrize("weighting", [Unweighted(), PW()], ids=["plain", "pw"])
@pytest.mark.parametrize("bias", [0.0, 0.5])
def test_every_nodes_weights_are_the_optimum_on_the_points_below_it(weighting, bias):
    tree = small_tree()
    options = DiSMEC(bias=bias, tol=1e-4, max_passes=500, prune=0.0).solver_options()
    trainer = NodeTrainer(X, Y, tree, options, weighting, seed=3)
    for node in range(tree.n_nodes):
        trained = trainer.train(node)
        points, carries = problem_of(tree, node)
        n_children = carries.shape[0]
        weights = np.zeros((n_children, X.shape[1] + 1))
        row = np.repeat(np.arange(trained.features.size), np.diff(trained.starts))
        weights[trained.children, trained.features[row]] = trained.values
        if bias:
            weights[:, -1] = trained.bias / bias
        rows = np.hstack([X[points].toarray(), np.full((points.size, 1), bias)]).astype(np.float64)
        own, _ = weighting.coefficients(carries.sum(axis=1), Y.shape[0])  # meta-labels: points below the node
        for child in range(n_children):
            positive = carries[child]
            if positive.all():
                continue  # LIBLINEAR asks for two classes
            svc = LinearSVC(C=1.0, fit_intercept=False, tol=1e-8, max_iter=100_000, class_weight={1: own[child], 0: 1})
            best = objective(svc.fit(rows, positive.astype(int)).coef_.ravel(), rows, positive, own[child])
            assert objective(weights[child], rows, positive, own[child]) <= best * (1 + 1e-3)
        assert (trained.gaps <= 1e-4).all()


def test_features_rise_weights_are_pruned_and_scratch_is_left_clean():
    tree = small_tree()
    trainer = NodeTrainer(X, Y, tree, DiSMEC(bias=1.0, tol=0.01, prune=0.1).solver_options(), Unweighted(), seed=0)
    first = [trainer.train(node) for node in range(tree.n_nodes)]
    again = [trainer.train(node) for node in reversed(range(tree.n_nodes))][::-1]
    for one, two in zip(first, again, strict=True):
        assert (np.diff(one.features) > 0).all()
        assert (np.diff(one.starts) > 0).all()
        assert (np.abs(one.values) >= 0.1).all()
        for a, b in zip(one, two, strict=True):
            np.testing.assert_array_equal(a, b)


def test_more_children_than_a_block_are_trained_alike():
    """In a node with 70 labels (three blocks) each label gets the weights that it would get alone."""
    rng = np.random.default_rng(0)
    many = sparse.csr_matrix((rng.random((150, 70)) < 0.05).astype(np.float32))
    many = many[:, np.flatnonzero(np.asarray(many.sum(axis=0)).ravel())]
    points = sparse.csr_matrix(rng.random((150, 20)).astype(np.float32))
    labels = np.arange(many.shape[1], dtype=np.int32)
    whole = grow(labels, None, max_leaf=100, max_depth=None, seed=0, n_jobs=1)
    options = DiSMEC(bias=1.0, tol=1e-5, max_passes=2000, prune=0.0).solver_options()
    trained = NodeTrainer(points, many, whole, options, Unweighted(), seed=0).train(0)
    assert trained.bias.size == many.shape[1] > 64
    carried = np.flatnonzero(np.diff(many.indptr))
    weights = np.zeros((many.shape[1], 20))
    row = np.repeat(np.arange(trained.features.size), np.diff(trained.starts))
    weights[trained.children, trained.features[row]] = trained.values
    rows = np.hstack([points[carried].toarray(), np.ones((carried.size, 1))]).astype(np.float64)
    for label in labels[::7]:
        positive = many[carried][:, [label]].toarray().ravel() > 0
        svc = LinearSVC(C=1.0, fit_intercept=False, tol=1e-9, max_iter=1_000_000).fit(rows, positive.astype(int))
        found = objective(np.append(weights[label], trained.bias[label]), rows, positive, 1.0)
        assert found <= objective(svc.coef_.ravel(), rows, positive, 1.0) * (1 + 1e-3)
