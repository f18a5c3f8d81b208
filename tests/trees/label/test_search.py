"""Beam search: exact with a full beam, never better than exact with a narrow one."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from longtail import Bonsai, Parabel
from longtail.core.predictions import empty_top
from longtail.trees.label import search as search_module
from longtail.trees.label.feature_index import indexed
from longtail.trees.label.models import POWERS
from trees.label.plain import brute_force, dense_weights, grouped_points, mean_probabilities

X, Y = grouped_points()
X_TEST = grouped_points(120, seed=5)[0]
MODELS = {
    "parabel": Parabel(n_trees=2, n_children=2, max_leaf=3, prune=0.01),
    "wide parabel": Parabel(n_trees=2, n_children=4, max_leaf=2, prune=0.01),
    "bonsai": Bonsai(n_trees=2, n_children=5, max_leaf=4, prune=0.01),
    "one leaf": Parabel(n_trees=1, prune=0.3),
    "labels beside nodes": Bonsai(n_trees=1, n_children=8, max_leaf=2),
}
FITTED = {name: model.fit(X, Y) for name, model in MODELS.items()}
every = pytest.mark.parametrize("name", MODELS)


@every
@pytest.mark.parametrize("power", POWERS)
def test_a_full_beam_is_exact(name, power):
    model = FITTED[name]
    expected = brute_force(model.trees_, X_TEST.toarray(), 24, power)
    found = model.predict(X_TEST, k=24, beam=None, power=power)
    assert (found.labels >= 0).all()
    by_label = np.take_along_axis(expected, found.labels.astype(int), axis=1)
    np.testing.assert_allclose(found.scores, by_label, rtol=2e-4, atol=1e-7)
    assert (np.diff(by_label, axis=1) <= 1e-5).all()
    assert ((found.scores > 0) & (found.scores <= 1)).all()


@every
@pytest.mark.parametrize("beam", [1, 2])
def test_a_narrow_beam_finds_some_labels_with_the_same_scores(name, beam):
    model = FITTED[name]
    trees = model.trees_
    for tree in trees:
        model.trees_ = [tree]  # an average over trees that did not all reach a label is lower
        expected = brute_force([tree], X_TEST.toarray(), 24, model.power)
        model.set_params(beam=beam)
        found = model.predict(X_TEST, k=24)
        kept = found.labels >= 0
        assert kept.sum(axis=1).max() <= tree.most_candidates(beam)
        by_label = np.take_along_axis(expected, np.maximum(found.labels, 0).astype(int), axis=1)
        np.testing.assert_allclose(found.scores[kept], by_label[kept], rtol=2e-4, atol=1e-7)
    model.trees_ = trees
    model.set_params(beam=10)


def test_a_beam_that_does_not_reach_k_labels_leaves_padding():
    narrow = FITTED["parabel"].set_params(beam=1).predict(X_TEST, k=24)
    FITTED["parabel"].set_params(beam=10)
    assert (narrow.labels[:, 0] >= 0).all()
    assert (narrow.labels[:, -1] == -1).all()
    assert np.isneginf(narrow.scores[narrow.labels < 0]).all()


@every
def test_looking_up_by_table_and_by_search_are_the_same(name, monkeypatch):
    """The kernels choose by cost: single points always search, batches of these sizes always use the table."""
    model = FITTED[name]
    together = model.predict(X_TEST, k=10)
    singly = [model.predict(X_TEST[i], k=10) for i in range(X_TEST.shape[0])]
    np.testing.assert_array_equal(together.labels, np.concatenate([one.labels for one in singly]))
    np.testing.assert_array_equal(together.scores, np.concatenate([one.scores for one in singly]))
    monkeypatch.setattr(search_module, "_CANDIDATES_AT_A_TIME", 300)  # a few points at a time
    in_parts = model.predict(X_TEST, k=10)
    np.testing.assert_array_equal(together.labels, in_parts.labels)
    np.testing.assert_array_equal(together.scores, in_parts.scores)


@pytest.mark.parametrize("spread", [0.3, 5.0, 60.0])
@pytest.mark.parametrize("n_trees", [1, 3])
@pytest.mark.parametrize("k", [1, 5, 50])
def test_labels_left_out_early_would_not_have_been_among_the_best(spread, n_trees, k):
    """Scores with ties, far below what float32 can hold as a probability, and points that found fewer than k labels."""
    rng = np.random.default_rng(int(spread) + n_trees)
    found = np.stack([[rng.permutation(60)[:40] for _ in range(30)] for _ in range(n_trees)]).astype(np.int32)
    found_scores = (-np.round(rng.exponential(spread, found.shape), 2)).astype(np.float32)
    n_found = rng.choice([0, 3, 40], found.shape[:2], p=[0.1, 0.1, 0.8])
    labels, scores = empty_top(30, k)
    search_module._average(found, found_scores, n_found, 60, labels, scores)
    expected = mean_probabilities(found, found_scores, n_found, 60)
    reached = np.zeros((30, 60), bool)
    for t, i in np.ndindex(n_trees, 30):
        reached[i, found[t, i, : n_found[t, i]]] = True
    expected = np.where(reached, np.maximum(expected, np.float32(1e-38)), -np.inf)
    best = -np.sort(-expected, axis=1)[:, :k]
    np.testing.assert_allclose(scores, best, rtol=1e-6)
    np.testing.assert_array_equal(labels >= 0, np.isfinite(best))
    chosen = np.take_along_axis(expected, np.maximum(labels, 0), axis=1)
    np.testing.assert_allclose(chosen[labels >= 0], best[labels >= 0], rtol=1e-6)
    if n_trees == 1:  # equal scores are equal probabilities: the lower label comes first
        order = np.argsort(-expected, axis=1, kind="stable")[:, :k]
        np.testing.assert_array_equal(labels[labels >= 0], order[labels >= 0])


@pytest.mark.parametrize("sizes", [[0], [1], [7, 0, 100], [300, 2], [1, 90, 5]])
def test_features_are_found_by_buckets(sizes):
    rng = np.random.default_rng(sum(sizes))
    nodes = [np.sort(rng.choice(300, n, replace=False)).astype(np.int32) for n in sizes]
    row_start = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    features = np.concatenate(nodes)
    tree = (*(row_start,) * 4, row_start, features, *(row_start,) * 6, *indexed(row_start, features))
    wanted = np.sort(rng.choice(400, 60, replace=False)).astype(np.int32)  # some are above all of the tree
    rows = np.empty(60, np.int64)
    for v, own in enumerate(nodes):
        search_module._find(wanted, tree, v, rows)
        place = {int(f): r for r, f in enumerate(own)}
        assert rows.tolist() == [place.get(int(f), -1) for f in wanted]


def test_both_ways_to_keep_weights_are_in_use_and_agree_with_training():
    """In sixteen bits, every weight is within half a unit of the trained one."""
    stored = [tree for model in FITTED.values() for tree in model.trees_]
    assert any(tree.is_dense.any() for tree in stored)
    wide = Parabel(n_trees=1, prune=0.3).fit(*many_labels())
    assert not wide.trees_[0].is_dense.any()
    points, _ = many_labels()
    wide.set_params(beam=None)
    expected = brute_force(wide.trees_, points.toarray(), 90, wide.power)
    found = wide.predict(points, k=3)
    np.testing.assert_allclose(found.scores, -np.sort(-expected, axis=1)[:, :3], rtol=1e-3, atol=1e-6)
    fine = np.abs(dense_weights(wide.trees_[0], points.shape[1]))
    assert fine[fine > 0].min() >= 0.3 * (1 - 1e-3)


def many_labels():
    rng = np.random.default_rng(0)
    Y = np.eye(90, dtype=np.float32)[rng.integers(90, size=400)]
    X = np.hstack([Y, rng.random((400, 20)) < 0.2]).astype(np.float32)
    return sparse.csr_matrix(X / np.linalg.norm(X, axis=1, keepdims=True)), sparse.csr_matrix(Y)
