"""Every kernel of the solver against its plain twin."""

from __future__ import annotations

import numpy as np
import pytest
from numba import njit
from scipy import sparse

from linear.twins import NAMES, plain_pass, plain_values
from longtail.linear import kernels
from longtail.linear.order import _CHUNK, shuffled
from longtail.linear.simd import BLOCK, any_above, block_adds, block_dots, prefetch
from longtail.linear.solver import _permuted_with_bias, _row_norms

EVERY_LOSS = pytest.mark.parametrize("loss", NAMES, ids=NAMES.values())


# --- vector primitives ------------------------------------------------------------------------------------------------


@njit
def dots(W, indices, values, start, end, z):
    block_dots(W, indices, values, start, end, z)


@njit
def adds(W, indices, values, start, end, d):
    block_adds(W, indices, values, start, end, d)


@njit
def some_above(z, limits):
    return any_above(z, limits)


@njit
def prefetched_sum(values):
    total = 0.0
    for p in range(values.shape[0]):
        prefetch(values, p + 64)  # beyond the end too: asking never faults
        total += values[p]
    return total


@pytest.mark.parametrize(("start", "end"), [(0, 40), (7, 8), (5, 5), (0, 0), (39, 40)])
def test_block_dots_and_adds_equal_numpy(start, end):
    rng = np.random.default_rng(start + end)
    W = rng.normal(size=(50, BLOCK)).astype(np.float32)
    indices = rng.permutation(50)[:40].astype(np.uint32)
    values, d = rng.normal(size=40).astype(np.float32), rng.normal(size=BLOCK).astype(np.float32)
    z = np.full(BLOCK, np.nan, np.float32)  # what was there does not matter
    before = W.copy()
    dots(W, indices, values, start, end, z)
    part = slice(start, end)
    np.testing.assert_allclose(z, values[part].astype(np.float64) @ W[indices[part]], rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(W, before)

    adds(W, indices, values, start, end, d)
    expected = before.astype(np.float64)
    expected[indices[part]] += np.outer(values[part], d)
    np.testing.assert_allclose(W, expected, rtol=1e-5, atol=1e-6)
    untouched = np.setdiff1d(np.arange(50), indices[part])
    np.testing.assert_array_equal(W[untouched], before[untouched])


def test_block_adds_to_the_same_row_twice_adds_twice():
    W = np.zeros((3, BLOCK), np.float32)
    adds(W, np.array([1, 1], np.uint32), np.array([2, 3], np.float32), 0, 2, np.ones(BLOCK, np.float32))
    np.testing.assert_array_equal(W[1], 5)


@pytest.mark.parametrize("lane", [0, 15, 16, BLOCK - 1])
def test_any_above_looks_at_every_lane(lane):
    limits = np.linspace(-1, 1, BLOCK).astype(np.float32)
    z = limits.copy()
    assert not some_above(z, limits)  # equal is not above
    z[lane] = np.nextafter(z[lane], np.float32(9))
    assert some_above(z, limits)
    limits[lane] = np.inf
    z[lane] = np.nan
    assert not some_above(z, limits)


def test_prefetch_changes_nothing():
    assert prefetched_sum(np.arange(100, dtype=np.float32)) == 4950


# --- the order of a pass ----------------------------------------------------------------------------------------------


def new_state(seed=1):
    return np.array([seed], np.uint64)


@pytest.mark.parametrize("n", [0, 1, 2, 31, 32, 33, 1000])
def test_shuffled_is_a_permutation_in_chunks(n):
    points = (np.arange(n) * 3).astype(np.uint32)
    order = shuffled(points, new_state())
    np.testing.assert_array_equal(np.sort(order), points)
    np.testing.assert_array_equal(points, np.arange(n) * 3)  # the input stays as it was
    position = np.empty(n, np.int64)
    position[order // 3] = np.arange(n)
    for first in range(0, n, _CHUNK):  # neighbours stay neighbours
        together = position[first : first + _CHUNK]
        assert together.max() - together.min() == together.size - 1


def test_shuffled_gives_a_fresh_order_each_time_and_the_same_for_a_seed():
    points = np.arange(1000, dtype=np.uint32)
    state = new_state()
    first, second = shuffled(points, state), shuffled(points, state)
    assert (first != second).mean() > 0.9
    np.testing.assert_array_equal(first, shuffled(points, new_state()))
    assert (first != shuffled(points, new_state(2))).mean() > 0.9


def test_shuffled_puts_every_point_everywhere():
    """Over many shuffles each of four points comes first about equally often."""
    state, points = new_state(99), np.arange(4, dtype=np.uint32)
    first = np.bincount([shuffled(points, state)[0] for _ in range(4000)], minlength=4)
    assert first.min() > 850  # 1000 expected, standard deviation 27
    assert first.max() < 1150


# --- one pass ---------------------------------------------------------------------------------------------------------


class Block:
    """A random block: points with and without positives, a row without features, weights, relevances, lanes that left.

    `positive` holds the relevance of each positive, and 0 for negatives.
    """

    def __init__(self, seed, *, n=60, n_features=25, bias=1.0, live=None):
        rng = np.random.default_rng(seed)
        dense = rng.normal(size=(n, n_features)) * (rng.random((n, n_features)) < 0.3)
        dense[3] = 0
        X = sparse.csr_matrix(dense.astype(np.float32))
        self.order = rng.permutation(n).astype(np.uint32)
        self.X = _permuted_with_bias(X, np.arange(n), bias)
        self.dense = np.hstack([X.toarray(), np.full((n, 1), bias)]) if bias else X.toarray()
        self.dense = self.dense.astype(np.float64)
        self.norms = _row_norms(*self.X)
        self.weights = rng.uniform(0.2, 3, n).astype(np.float32)
        self.positive = rng.uniform(0.3, 1, (n, BLOCK)) * (rng.random((n, BLOCK)) < 0.1)
        self.positive[:5] = 0
        matrix = sparse.csr_matrix(self.positive.astype(np.float32))
        self.labels = (matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32), matrix.data)
        self.costs = np.stack([np.full(BLOCK, 0.7), rng.uniform(0.1, 8, BLOCK)]).astype(np.float32)
        self.duals = np.zeros((n, BLOCK), np.float32)
        self.W = np.zeros((self.dense.shape[1], BLOCK), np.float32)
        self.live = np.ones(BLOCK, np.float32) if live is None else live
        self.active = np.zeros(n, np.uint8)

    def kernel_pass(self, loss):
        sums = np.zeros((3, BLOCK))
        kernels.one_pass(
            self.order, loss, self.X, self.norms, self.weights, self.labels, self.costs, self.duals, self.W,
            self.live, sums, self.active,
        )  # fmt: skip
        return sums

    def plain_pass(self, loss, duals, W):
        return plain_pass(
            self.order, loss, self.dense, self.weights.astype(np.float64), self.positive,
            self.costs.astype(np.float64), duals, W, self.live,
        )  # fmt: skip


@EVERY_LOSS
@pytest.mark.parametrize("bias", [1.0, 0.0])
def test_passes_equal_their_plain_twin(loss, bias):
    block = Block(5, bias=bias)
    duals, W = block.duals.astype(np.float64), block.W.astype(np.float64)
    for _ in range(4):  # later passes start from dual variables, and leave out what is settled
        sums = block.kernel_pass(loss)
        expected, active = block.plain_pass(loss, duals, W)
        np.testing.assert_allclose(block.duals, duals, rtol=1e-3, atol=1e-4)
        np.testing.assert_allclose(block.W, W, rtol=1e-3, atol=1e-4)
        np.testing.assert_allclose(sums, expected, rtol=1e-3, atol=1e-4)
        np.testing.assert_array_equal(block.active, active)
    signs = np.where(block.positive, 1.0, -1.0)
    np.testing.assert_allclose(block.W, block.dense.T @ (block.duals * signs), rtol=1e-3, atol=1e-4)


@EVERY_LOSS
def test_lanes_that_left_stay_as_they_are(loss):
    live = (np.arange(BLOCK) % 3 > 0).astype(np.float32)
    block = Block(6)
    for _ in range(2):
        block.kernel_pass(loss)
    block.live = live
    before_duals, before_W = block.duals.copy(), block.W.copy()
    duals, W = block.duals.astype(np.float64), block.W.astype(np.float64)
    sums = block.kernel_pass(loss)
    expected, active = block.plain_pass(loss, duals, W)
    left = live == 0
    np.testing.assert_array_equal(block.duals[:, left], before_duals[:, left])
    np.testing.assert_array_equal(block.W[:, left], before_W[:, left])
    assert (block.W[:, ~left] != before_W[:, ~left]).any()
    np.testing.assert_allclose(block.W, W, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(sums[:, ~left], expected[:, ~left], rtol=1e-3, atol=1e-4)
    np.testing.assert_array_equal(block.active, active)


def test_sums_of_many_points_keep_their_digits():
    """Float32 sums of 20,000 losses would drift; flushed into float64 they agree to six digits."""
    block = Block(7, n=20_000)
    block.costs[:] = 0.1
    sums = block.kernel_pass(kernels.HINGE)
    assert (sums[0] > 500).all()
    duals = block.duals.astype(np.float64)
    np.testing.assert_allclose(sums[1], duals.sum(axis=0), rtol=1e-6)


# --- the measure ------------------------------------------------------------------------------------------------------


@EVERY_LOSS
def test_evaluate_equals_its_plain_twin_and_moves_nothing(loss):
    block = Block(9, n=700)  # more than one flush of the float32 sums
    for _ in range(3):
        block.kernel_pass(loss)
    block.live = (np.arange(BLOCK) % 4 > 0).astype(np.float32)
    block.active = (block.duals[:, block.live > 0] > 0).any(axis=1).astype(np.uint8)
    duals, W = block.duals.copy(), block.W.copy()
    sums = np.full((2, BLOCK), 7.0)  # what was there does not matter
    kernels.evaluate(
        loss, block.X, block.weights, block.labels, block.costs, block.duals, block.W, block.live, sums, block.active
    )
    np.testing.assert_array_equal(block.duals, duals)
    np.testing.assert_array_equal(block.W, W)
    expected, unsettled = plain_values(
        loss, block.dense, block.weights.astype(np.float64), block.positive, block.costs.astype(np.float64),
        duals.astype(np.float64), W.astype(np.float64), block.live,
    )  # fmt: skip
    live = block.live > 0
    np.testing.assert_allclose(sums[:, live], expected[:, live], rtol=1e-5)
    np.testing.assert_array_equal(block.active, unsettled)
    assert unsettled.mean() > 0


def test_evaluate_settles_points_that_are_right_for_every_lane():
    block = Block(10)
    block.W[-1] = -1.01  # the bias puts every point beyond the margin of a negative
    without = np.flatnonzero(~block.positive.any(axis=1))
    sums = np.zeros((2, BLOCK))
    kernels.evaluate(
        kernels.SQUARED_HINGE, block.X, block.weights, block.labels, block.costs, block.duals, block.W, block.live,
        sums, block.active,
    )  # fmt: skip
    assert without.size
    np.testing.assert_array_equal(np.flatnonzero(block.active == 0), without)


@EVERY_LOSS
def test_weights_of_duals_are_what_the_passes_left(loss):
    block = Block(11)
    for _ in range(3):
        block.kernel_pass(loss)
    W = np.full_like(block.W, np.nan)
    kernels.weights_of_duals(block.X, block.labels, block.duals, W)
    np.testing.assert_allclose(W, block.W, rtol=1e-4, atol=1e-5)


def test_squared_norms_equal_numpy():
    W = np.random.default_rng(0).normal(size=(1000, BLOCK)).astype(np.float32)
    np.testing.assert_allclose(kernels.squared_norms(W), (W.astype(np.float64) ** 2).sum(axis=0), rtol=1e-6)


# --- returning to positives -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n_positives", "returns"), [(1, 4), (12, 1), (60, 0)])
def test_a_sweep_visits_everyone_once_and_comes_back_to_few_positives(n_positives, returns):
    """With a tiny cost, only the first visit of a point raises its dual variable, up to that cost. The sums count the
    n visits of the sweep itself; the random state shows the returns."""
    block = Block(8)
    positives = np.arange(n_positives, dtype=np.uint32)
    everyone = np.arange(60, dtype=np.uint32)
    block.costs[:] = 1e-6
    block.weights[:] = block.labels[2][:] = 1
    sums, state = np.zeros((3, BLOCK)), new_state()
    kernels.sweep(
        everyone, positives, kernels.HINGE, block.X, block.norms, block.weights, block.labels, block.costs,
        block.duals, block.W, block.live, sums, block.active, state,
    )  # fmt: skip
    np.testing.assert_allclose(sums[0], 60 * 1e-6, rtol=1e-3)
    np.testing.assert_allclose(block.duals, 1e-6, rtol=1e-5)
    np.testing.assert_allclose(sums[2], kernels.squared_norms(block.W), rtol=1e-4)
    expected = new_state()
    for _ in range(returns):
        shuffled(positives, expected)
    np.testing.assert_array_equal(state, expected)
