"""Label representations, clusterings, and the growth of trees."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from longtail.trees.label.clustering import balanced_clusters, k_clusters, two_balanced_clusters
from longtail.trees.label.representation import label_representation
from longtail.trees.label.tree import grow, levels_of
from trees.label.plain import balanced_two_means, grouped_labels, grouped_points, k_means


def random_rows(n: int, d: int, seed: int) -> sparse.csr_matrix:
    rng = np.random.default_rng(seed)
    rows = sparse.random_array((n, d), density=0.3, rng=rng, dtype=np.float32).toarray() + 1e-3
    return sparse.csr_matrix((rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32))


def test_pifa_is_the_unit_sum_of_the_unit_rows_of_a_labels_points():
    X = sparse.csr_matrix(np.array([[3, 4, 0], [0, 0, 2], [1, 0, 0]], np.float32))
    Y = sparse.csr_matrix(np.array([[1, 0, 0], [1, 1, 0], [0, 1, 0]], np.float32))
    expected = np.array([[0.6, 0.8, 1], [1, 0, 1], [0, 0, 0]])
    expected[:2] /= np.linalg.norm(expected[:2], axis=1, keepdims=True)
    np.testing.assert_allclose(label_representation(X, Y, "pifa").toarray(), expected, rtol=1e-6)


def test_the_output_representation_counts_labels_that_occur_together():
    X = sparse.csr_matrix(np.eye(3, dtype=np.float32))
    Y = sparse.csr_matrix(np.array([[1, 1, 0], [1, 0, 0], [0, 0, 1]], np.float32))
    expected = np.array([[2, 1, 0], [1, 1, 0], [0, 0, 1]]) / np.sqrt([[5], [2], [1]])
    output = label_representation(X, Y, "output").toarray()
    np.testing.assert_allclose(output, expected, rtol=1e-6)
    joint = label_representation(X, Y, "joint").toarray()
    pifa = label_representation(X, Y, "pifa").toarray()
    np.testing.assert_allclose(joint, np.hstack([pifa, output]) / np.sqrt(2), rtol=1e-6)


@pytest.mark.parametrize("n", [2, 7, 40])
def test_two_clusters_are_those_of_the_plain_algorithm(n):
    for seed in range(5):
        rows = random_rows(n + 3, 30, seed)
        labels = np.random.default_rng(seed).permutation(n + 3)[:n].astype(np.int32)
        first, second = np.random.default_rng(seed).choice(n, 2, replace=False)
        found = two_balanced_clusters(rows, labels, np.random.default_rng(seed))
        expected = balanced_two_means(rows.toarray()[labels].astype(np.float64), first, second)
        np.testing.assert_array_equal(found, expected)
        assert (found == 0).sum() == (n + 1) // 2


def test_two_clusters_find_two_planted_groups():
    rows = grouped_labels(n_groups=2, per_group=10)
    for seed in range(5):
        clusters = two_balanced_clusters(rows, np.arange(20, dtype=np.int32), np.random.default_rng(seed))
        if len(set(np.random.default_rng(seed).choice(20, 2, replace=False) % 2)) == 2:  # one seed in each group
            assert len(set(zip(clusters, np.arange(20) % 2, strict=True))) == 2


def halved(rows, labels, times, rng):
    """Halve every group in turn, by the plain algorithm."""
    groups = [np.arange(labels.size)]
    for _ in range(times):
        halves = []
        for group in groups:
            seeds = rng.choice(group.size, 2, replace=False)
            second = balanced_two_means(rows[labels[group]].astype(np.float64), *seeds) == 1
            halves += [group[~second], group[second]]
        groups = halves
    return groups


@pytest.mark.parametrize(("k", "max_leaf", "times"), [(2, 5, 1), (4, 12, 2), (8, 12, 2), (4, 6, 1), (16, 3, 4)])
def test_balanced_clusters_are_those_of_repeated_halving(k, max_leaf, times):
    """48 labels: 2 halvings leave 12 per cluster, 3 leave 6; of these 3, nodes of 4 children leave one to the root."""
    rows = random_rows(60, 40, 1)
    labels = np.random.default_rng(1).permutation(60)[:48].astype(np.int32)
    found = balanced_clusters(rows, labels, k, max_leaf, np.random.default_rng(7))
    expected = halved(rows.toarray(), labels, times, np.random.default_rng(7))
    assert [np.flatnonzero(found == c).tolist() for c in range(len(expected))] == [g.tolist() for g in expected]


def test_nodes_below_the_root_are_full():
    rows = random_rows(320, 50, 0)
    split = lambda labels, rng: balanced_clusters(rows, labels, 4, 10, rng)  # noqa: E731
    tree = grow(np.arange(320, dtype=np.int32), split, max_leaf=10, max_depth=None, seed=0, n_jobs=1)
    check_tree(tree, range(320))  # five halvings: 2 children at the root, then 4 and 4, and leaves of 10
    assert np.diff(tree.child_start).tolist() == [2, 4, 4, *[4] * 8, *[10] * 32]


@pytest.mark.parametrize("k", [2, 5, 40])
def test_k_clusters_are_those_of_the_plain_algorithm(k):
    for seed in range(5):
        rows = random_rows(60, 40, seed)
        labels = np.random.default_rng(seed).permutation(60)[:50].astype(np.int32)
        seeds = np.random.default_rng(seed).choice(50, k, replace=False)
        found = k_clusters(rows, labels, k, np.random.default_rng(seed))
        np.testing.assert_array_equal(found, k_means(rows.toarray()[labels].astype(np.float64), seeds))


def two(rows):
    return lambda labels, rng: two_balanced_clusters(rows, labels, rng)


def several(rows, k):
    return lambda labels, rng: k_clusters(rows, labels, min(k, labels.size), rng)


def check_tree(tree, labels):
    """Check that every label is there once, and that the ranges give the labels below each edge."""
    assert sorted(tree.order) == sorted(labels)
    assert sorted(tree.child[tree.child >= 0]) == sorted(labels)
    assert sorted(-1 - tree.child[tree.child < 0]) == list(range(1, tree.n_nodes))

    def below(edge):
        if tree.child[edge] >= 0:
            return [int(tree.child[edge])]
        node = -1 - tree.child[edge]
        return [label for e in range(tree.child_start[node], tree.child_start[node + 1]) for label in below(e)]

    for edge in range(tree.child.size):
        low, high = tree.below[edge]
        assert below(edge) == tree.order[low:high].tolist()


@pytest.mark.parametrize("max_leaf", [1, 3, 10, 100])
def test_a_grown_tree_holds_every_label_once(max_leaf):
    rows = random_rows(37, 50, 0)
    labels = np.arange(2, 37, dtype=np.int32)
    for split in (two(rows), several(rows, 5)):
        tree = grow(labels, split, max_leaf=max_leaf, max_depth=None, seed=1, n_jobs=2)
        check_tree(tree, labels)
        sizes = np.diff(tree.child_start)
        assert sizes.max() <= max(max_leaf, 5)
        assert tree.n_nodes == (1 if max_leaf >= 35 else tree.n_nodes)


def test_binary_trees_are_balanced():
    rows = random_rows(100, 50, 0)
    tree = grow(np.arange(100, dtype=np.int32), two(rows), max_leaf=13, max_depth=None, seed=0, n_jobs=1)
    assert tree.n_nodes == 15  # three levels of nodes with two children, eight leaves
    assert set(np.diff(tree.child_start)[-8:]) == {12, 13}
    assert levels_of(tree.child_start, tree.child).tolist() == [0, 1, 1, 2, 2, 2, 2, *[3] * 8]


def test_the_depth_is_bounded_and_labels_that_look_alike_are_cut_evenly():
    same = sparse.csr_matrix(np.ones((30, 4), np.float32) / 2)
    tree = grow(np.arange(30, dtype=np.int32), several(same, 1), max_leaf=4, max_depth=None, seed=0, n_jobs=1)
    check_tree(tree, range(30))
    assert np.diff(tree.child_start).max() <= 4
    rows = random_rows(200, 40, 0)
    shallow = grow(np.arange(200, dtype=np.int32), several(rows, 4), max_leaf=5, max_depth=2, seed=0, n_jobs=1)
    check_tree(shallow, range(200))
    assert levels_of(shallow.child_start, shallow.child).max() <= 1


def test_seeds_give_other_trees_and_threads_the_same():
    X, Y = grouped_points()
    rows = label_representation(X, Y, "pifa")
    labels = np.arange(24, dtype=np.int32)
    options = {"max_leaf": 3, "max_depth": None}
    one = grow(labels, two(rows), **options, seed=0, n_jobs=1)
    many = grow(labels, two(rows), **options, seed=0, n_jobs=3)
    other = grow(labels, two(rows), **options, seed=1, n_jobs=1)
    np.testing.assert_array_equal(one.order, many.order)
    assert (one.order != other.order).any()
