"""The alternating optimisation of nDCG, against a plain form and on points whose sides are known."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from longtail.trees.instance.ndcg import alternate, by_falling_sums


def as_labels(matrix):
    matrix = sparse.csr_matrix(matrix, dtype=np.float32)
    return matrix.indptr.astype(np.int64), matrix.indices.astype(np.uint32), matrix.data


def ranks(sums):
    order = sorted(range(len(sums)), key=lambda label: (-sums[label], label))
    rank = np.empty(len(sums))
    rank[order] = np.arange(1, len(sums) + 1)
    return rank


def objective(gains, sides):
    return sum(
        (gains[sides == s].sum(axis=0) / np.log2(ranks(gains[sides == s].sum(axis=0)) + 1)).sum() for s in (-1, 1)
    )


def plain(gains, sides):
    """Do the same rounds with dense arrays, as the paper describes them."""
    sides = sides.copy()
    reached = -np.inf
    for _ in range(100):
        ndcg = {s: gains @ (1 / np.log2(ranks(gains[sides == s].sum(axis=0)) + 1)) for s in (-1, 1)}
        value = objective(gains, sides)
        new = np.where(np.abs(ndcg[1] - ndcg[-1]) < 1e-9, sides, np.where(ndcg[1] > ndcg[-1], 1, -1))
        moved = (new != sides).any()
        sides = new
        if not moved or value - reached < 1e-6 * len(sides):
            break
        reached = value
    return sides


@pytest.mark.parametrize("seed", range(8))
def test_kernel_and_plain_form_agree(seed):
    rng = np.random.default_rng(seed)
    carried = rng.random((60, 15)) < 0.5 / np.arange(1, 16) ** 0.5
    gains = (carried * rng.uniform(0.5, 4, carried.shape)).astype(np.float32)
    gains[:, 0] += np.float32(0.01)  # the last label must occur for both to count the same labels
    gains[0, -1] = 1
    start = rng.choice([-1, 1], 60).astype(np.float32)
    sides = start.copy()
    alternate(as_labels(gains), sides)
    np.testing.assert_array_equal(sides, plain(gains.astype(np.float64), start))
    assert objective(gains, sides) >= objective(gains, start)


@pytest.mark.parametrize("n", [1, 50, 1999, 2000, 5000])
def test_labels_are_ranked_by_sum_and_then_by_id(n):
    rng = np.random.default_rng(n)
    for sums in (rng.integers(0, 20, n) / 7, rng.exponential(1e-3, n) ** 3, np.zeros(n), rng.random(n) * 1e300):
        expected = sorted(range(n), key=lambda label: (-sums[label], label))
        np.testing.assert_array_equal(by_falling_sums(sums), expected)


def test_two_groups_with_labels_of_their_own_come_apart():
    gains = np.zeros((40, 6), np.float32)
    gains[:20, :3] = 1
    gains[20:, 3:] = 1
    sides = np.where(np.arange(40) % 20 < 12, 1, -1).astype(np.float32)
    sides[20:] *= -1  # a start that leans the right way
    alternate(as_labels(gains), sides)
    assert set(sides[:20]) != set(sides[20:])
    assert len(set(sides[:20])) == len(set(sides[20:])) == 1


def test_points_without_labels_stay_where_they_are():
    gains = np.zeros((6, 2), np.float32)
    gains[0, 0] = gains[1, 1] = 1
    sides = np.array([1, -1, 1, -1, -1, 1], np.float32)
    alternate(as_labels(gains), sides)
    np.testing.assert_array_equal(sides[2:], [1, -1, -1, 1])


def test_no_labels_at_all_is_no_trouble():
    sides = np.array([1, -1], np.float32)
    alternate(as_labels(np.zeros((2, 3))), sides)
    np.testing.assert_array_equal(sides, [1, -1])
