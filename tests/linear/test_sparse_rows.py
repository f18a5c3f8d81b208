"""The loops over sparse rows against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from longtail.core.compiled import njit
from longtail.linear.sparse_rows import add_row, entries, row_dot


@pytest.fixture(params=[np.int32, np.uint32], ids=["signed", "unsigned"])
def rows(request: pytest.FixtureRequest) -> sparse.csr_matrix:
    """Rows of 0 to 19 entries: every remainder that a sum of four parts can leave."""
    rng = np.random.default_rng(3)
    dense = np.zeros((20, 40), np.float32)
    for length in range(20):
        dense[length, rng.choice(40, length, replace=False)] = rng.normal(size=length)
    found = sparse.csr_matrix(dense)
    found.indices = found.indices.astype(request.param)
    return found


@njit
def _positions(ptr, row):
    """A range is not handed to Python."""
    found = []
    for p in entries(ptr, row):
        found.append(p)
    return found


def test_entries_of_a_row(rows: sparse.csr_matrix) -> None:
    for row in range(rows.shape[0]):
        assert _positions(rows.indptr, row) == list(range(rows.indptr[row], rows.indptr[row + 1]))


def test_dot_of_a_row(rows: sparse.csr_matrix) -> None:
    w = np.random.default_rng(4).normal(size=rows.shape[1]).astype(np.float32)
    found = [row_dot(rows.indptr, rows.indices, rows.data, row, w) for row in range(rows.shape[0])]
    np.testing.assert_allclose(found, rows.toarray() @ w, rtol=1e-5, atol=1e-6)
    assert found[0] == 0


def test_row_is_added(rows: sparse.csr_matrix) -> None:
    w = np.ones(rows.shape[1], np.float32)
    for row in range(rows.shape[0]):
        add_row(rows.indptr, rows.indices, rows.data, row, np.float32(row), w)
    np.testing.assert_allclose(w, 1 + np.arange(rows.shape[0]) @ rows.toarray(), rtol=1e-4, atol=1e-4)
