"""Rows of a matrix on the device, compared with SciPy's."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import sparse

from longtail.neural.batches import ShuffledRows, n_points, split
from longtail.neural.device_csr import DeviceCsr


@pytest.mark.parametrize("numbers", [[3, 0, 3, 5], [1], [4, 1], []])
def test_rows_are_scipys(numbers):
    dense = np.random.default_rng(0).random((6, 9)).astype(np.float32)
    dense[dense < 0.6] = 0
    dense[[1, 4]] = 0  # empty rows, also at the end of a selection
    matrix = DeviceCsr(sparse.csr_matrix(dense), "cpu")
    rows = matrix.rows(torch.tensor(numbers, dtype=torch.int64))
    found = np.zeros((len(numbers), 9), np.float32)
    found[rows.row_of_each, rows.columns] = rows.values
    np.testing.assert_array_equal(found, dense[numbers])
    np.testing.assert_array_equal(rows.lengths, (dense[numbers] != 0).sum(1))


def test_every_epoch_shows_every_point_once_in_an_order_of_its_own():
    rows = np.array([3, 5, 8, 9, 11])
    batches = ShuffledRows(rows, 2, seed=4)
    assert len(batches) == 3
    orders = [torch.cat(list(batches.epoch(e))).tolist() for e in (0, 1, 0)]
    assert sorted(orders[0]) == rows.tolist()
    assert orders[0] == orders[2] != orders[1]
    other = torch.cat(list(ShuffledRows(rows, 2, seed=5).epoch(0))).tolist()
    assert other != orders[0]


def test_batches_of_any_nesting_are_split_and_counted():
    batch = {"a": torch.arange(5), "b": (torch.arange(10).reshape(5, 2), [torch.arange(5)])}
    assert n_points(batch) == 5
    parts = split(batch, 2)
    assert [part["a"].tolist() for part in parts] == [[0, 1], [2, 3, 4]]
    assert parts[1]["b"][0].tolist() == [[4, 5], [6, 7], [8, 9]]
    assert [part["a"].tolist() for part in split(batch, 9)] == [[0], [1], [2], [3], [4]]
