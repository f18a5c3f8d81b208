"""The L1-regularised logistic regression: optimality conditions, which suffice for a convex problem."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from longtail.linear.l1_logistic import l1_logistic, may_have_weight


def problem(seed, n=80, m=25, signed=True):
    rng = np.random.default_rng(seed)
    X = sparse.random(n, m, density=0.3, random_state=rng, format="csc", dtype=np.float32)
    if signed:
        X.data *= rng.choice([-1, 1], X.data.size).astype(np.float32)
    w = rng.normal(size=m) * (rng.random(m) < 0.4) * 4
    y = np.where(X @ w + 0.3 * rng.normal(size=n) > 0, 1, -1).astype(np.float32)
    return X, y, rng.uniform(0.5, 3, n).astype(np.float32)


def solve(X, y, costs, tolerance=1e-5, max_newton=100, max_passes=100):
    columns = (X.indptr.astype(np.int64), X.indices.astype(np.uint32), X.data)
    return l1_logistic(columns, y, costs, tolerance, max_newton, max_passes, np.array([7], np.uint64))


def objective(X, y, costs, w):
    return np.abs(w).sum() + (costs * np.logaddexp(0, -y * (X @ w.astype(np.float64)))).sum()


def gradient(X, y, costs, w):
    margins = y * (X @ w.astype(np.float64))
    return -X.T @ (costs * y / (1 + np.exp(margins)))


@pytest.mark.parametrize("seed", range(6))
def test_the_minimum_is_found(seed):
    X, y, costs = problem(seed, signed=seed % 2 == 0)
    w = solve(X, y, costs)
    g = gradient(X, y, costs, w)
    assert 0 < (w != 0).sum() < w.size, "some features are used, some are not"
    np.testing.assert_allclose(g[w != 0], -np.sign(w[w != 0]), atol=2e-3)
    assert (np.abs(g[w == 0]) <= 1 + 2e-3).all()


@pytest.mark.parametrize("seed", range(3))
def test_loose_limits_give_a_good_solution(seed):
    """With the limits that the trees use, the objective is close to the minimum."""
    X, y, costs = problem(seed)
    least = objective(X, y, costs, solve(X, y, costs))
    found = objective(X, y, costs, solve(X, y, costs, 0.01, 10, 10))
    assert least <= found * (1 + 1e-6)
    assert found <= 1.01 * least < 0.7 * objective(X, y, costs, np.zeros(X.shape[1]))


@pytest.mark.parametrize("seed", range(4))
def test_features_that_are_screened_out_have_no_weight_at_the_minimum(seed):
    X, y, costs = problem(seed, n=30, m=60)
    X.data *= np.float32(0.4)
    pushes = X.multiply((y * costs)[:, None]).tocsc()
    up = np.asarray(pushes.maximum(0).sum(axis=0)).ravel()
    down = np.asarray((-pushes).maximum(0).sum(axis=0)).ravel()
    kept = np.array([may_have_weight(np.float32(a), np.float32(b)) for a, b in zip(up, down, strict=True)])
    assert 5 < kept.sum() < 60
    w = solve(X, y, costs)
    assert (w[~kept] == 0).all()
    np.testing.assert_allclose(solve(X[:, kept].tocsc(), y, costs), w[kept], atol=2e-3)


def test_a_problem_without_signal_gives_zero():
    X, _, costs = problem(0, n=20, m=5)
    y = np.ones(20, np.float32)
    X.data[:] = 1e-3
    assert (solve(X, y, costs) == 0).all()


def test_separable_and_huge_values_stay_finite():
    X = sparse.csc_matrix(np.array([[1e4], [-1e4]], np.float32))
    w = solve(X, np.array([1, -1], np.float32), np.ones(2, np.float32))
    assert np.isfinite(w).all()
    assert w[0] > 0
