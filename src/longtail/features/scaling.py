"""Rows of one length."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from longtail.core.inputs import squared_lengths

_ROWS_AT_ONCE = 10_000


def row_lengths(X: sparse.csr_matrix) -> NDArray[np.float64]:
    """The Euclidean length of each row."""
    lengths: NDArray[np.float64] = np.sqrt(squared_lengths(X))
    return lengths


def unit_rows(X: sparse.csr_matrix) -> sparse.csr_matrix:
    """The same rows scaled to Euclidean length 1; empty rows stay empty. Only the values are copied."""
    data = np.empty(X.data.size, np.float32)
    for first in range(0, X.shape[0], _ROWS_AT_ONCE):
        rows = X[first : first + _ROWS_AT_ONCE]
        lengths = row_lengths(rows)
        scale = np.divide(1.0, lengths, out=np.zeros_like(lengths), where=lengths > 0)
        begin = X.indptr[first]
        data[begin : begin + rows.data.size] = rows.data * np.repeat(scale, np.diff(rows.indptr))
    return sparse.csr_matrix((data, X.indices, X.indptr), shape=X.shape)
