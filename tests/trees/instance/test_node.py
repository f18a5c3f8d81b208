"""One node: its kernels agree with plain NumPy and leave their buffers clean."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from longtail.trees.instance.grow import inverse_ideal_dcg
from longtail.trees.instance.node import _gather_columns, _gather_labels, leaf, make_buffers, split


def arrays(matrix):
    return matrix.indptr.astype(np.int64), matrix.indices, matrix.data


def random_data(seed, n=50, features=30, labels=12):
    rng = np.random.default_rng(seed)
    X = sparse.random(n, features, density=0.3, random_state=rng, format="csr", dtype=np.float32)
    X.data *= rng.choice([-1, 1], X.data.size).astype(np.float32)
    Y = sparse.csr_matrix((rng.random((n, labels)) < 0.2).astype(np.float32))
    points = np.sort(rng.choice(n, 20, replace=False)).astype(np.int32)
    return X, Y, points, rng


def assert_clean(buffers):
    for buffer, new in zip(buffers, make_buffers(buffers[1].size, buffers[2].size), strict=True):
        np.testing.assert_array_equal(buffer, new)


@pytest.mark.parametrize("seed", range(3))
def test_labels_are_gathered_with_ids_of_their_own(seed):
    X, Y, points, _ = random_data(seed)
    buffers = make_buffers(X.shape[1], Y.shape[1])
    (indptr, ids, gains), n_labels = _gather_labels(points, arrays(Y), buffers[2])
    own = Y[points]
    np.testing.assert_array_equal(indptr, own.indptr)
    np.testing.assert_array_equal(gains, own.data)
    first_seen = list(dict.fromkeys(own.indices.tolist()))
    assert n_labels == len(first_seen)
    assert [first_seen[i] for i in ids] == own.indices.tolist()
    assert_clean(buffers)


@pytest.mark.parametrize("seed", range(3))
def test_columns_are_those_that_can_have_a_weight(seed):
    X, Y, points, rng = random_data(seed)
    buffers = make_buffers(X.shape[1], Y.shape[1])
    sides = rng.choice([-1, 1], points.size).astype(np.float32)
    costs = rng.uniform(0.3, 0.6, points.size).astype(np.float32)
    features, (indptr, rows, values) = _gather_columns(
        points, arrays(X), sides, costs, np.float32(2), buffers[0], buffers[1]
    )
    own = X[points].toarray()
    pushes = own * (sides * costs)[:, None]
    bound = np.maximum(np.maximum(pushes, 0).sum(axis=0), np.maximum(-pushes, 0).sum(axis=0))
    np.testing.assert_array_equal(features, np.flatnonzero(bound > 1))
    assert 0 < features.size < X.shape[1]
    columns = sparse.csc_matrix((values, rows.astype(np.int32), indptr), shape=(points.size, features.size + 1))
    np.testing.assert_array_equal(columns.toarray(), np.column_stack([own[:, features], np.full(points.size, 2)]))
    assert_clean(buffers)


@pytest.mark.parametrize("kept", [1, 3, 100])
def test_a_leaf_is_the_weighted_mean_of_label_vectors(kept):
    X, Y, points, rng = random_data(1)
    buffers = make_buffers(X.shape[1], Y.shape[1])
    weights = rng.uniform(1, 5, Y.shape[1]).astype(np.float32)
    labels, values = leaf(points, arrays(Y), weights, kept, buffers)
    mean = Y[points].toarray().mean(axis=0) * weights
    largest = np.argsort(-mean, kind="stable")[:kept]
    np.testing.assert_array_equal(labels, np.sort(largest[mean[largest] > 0]))
    np.testing.assert_allclose(values, mean[labels], rtol=1e-6)
    assert_clean(buffers)


def divided(X, Y, seed=0, C=1.0):
    labels = Y.indptr.astype(np.int64), Y.indices, Y.data
    buffers = make_buffers(X.shape[1], Y.shape[1])
    state = np.array([seed + 1], np.uint64)
    out = split(np.arange(X.shape[0], dtype=np.int32), arrays(X), labels, C, np.float32(1), buffers, state)
    assert_clean(buffers)
    return out


# Other seeds may start with half of each topic on either side. Both rankings are then the same, and nothing moves.
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_two_topics_are_divided_by_their_words(seed):
    n = 60
    Y, X = np.zeros((n, 6), np.float32), np.zeros((n, 10), np.float32)
    Y[: n // 2, :3], Y[n // 2 :, 3:] = 1, 1
    X[: n // 2, 0], X[n // 2 :, 1] = 1, 1
    X[:, 2:] = np.random.default_rng(seed).random((n, 8)) * 0.05
    X, Y = sparse.csr_matrix(X), sparse.csr_matrix(Y)
    features, weights, intercept, right = divided(X, Y, seed)
    assert set(features) <= {0, 1}
    assert len(set(right[: n // 2])) == len(set(right[n // 2 :])) == 1
    assert right[0] != right[-1]
    w = np.zeros(10)
    w[features] = weights
    np.testing.assert_array_equal(X @ w + intercept > 0, right)


def test_points_that_cannot_be_told_apart_all_go_one_way():
    rng = np.random.default_rng(0)
    Y = sparse.csr_matrix((rng.random((40, 6)) < 0.4).astype(np.float32))
    for X in (np.zeros((40, 5)), np.ones((40, 5))):
        *_, right = divided(sparse.csr_matrix(X.astype(np.float32)), Y)
        assert right.all() or not right.any()


def test_points_with_the_same_labels_are_not_divided():
    X = sparse.csr_matrix(np.eye(30, dtype=np.float32))
    Y = sparse.csr_matrix(np.tile(np.array([1, 0, 1], np.float32), (30, 1)))
    features, _, _, right = divided(X, Y, C=100.0)
    assert features.size == 0
    assert not right.any()


def test_the_inverse_of_the_ideal_dcg():
    found = inverse_ideal_dcg(np.array([0, 1, 2, 3]))
    np.testing.assert_allclose(found, [0, 1, 1 / (1 + 1 / np.log2(3)), 1 / (1.5 + 1 / np.log2(3))])
