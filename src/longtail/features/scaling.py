"""Lengths of rows, and rows scaled to length 1."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from longtail.core.inputs import squared_lengths

_ROWS_AT_ONCE = 10_000


def row_lengths(X: sparse.csr_matrix) -> NDArray[np.float64]:
    """Return the Euclidean length of each row.

    Parameters
    ----------
    X : (n, D) csr_matrix
        Features.

    Returns
    -------
    (n,) array of float64
    """
    lengths: NDArray[np.float64] = np.sqrt(squared_lengths(X))
    return lengths


def unit_rows(X: sparse.csr_matrix) -> sparse.csr_matrix:
    """Scale rows to Euclidean length 1; empty rows stay empty.

    Parameters
    ----------
    X : (n, D) csr_matrix
        Features.

    Returns
    -------
    (n, D) csr_matrix of float32
        Shares its indices with `X`; only the values are copied.
    """
    data = np.empty(X.data.size, np.float32)
    for first in range(0, X.shape[0], _ROWS_AT_ONCE):
        rows = X[first : first + _ROWS_AT_ONCE]
        lengths = row_lengths(rows)
        scale = np.divide(1.0, lengths, out=np.zeros_like(lengths), where=lengths > 0)
        begin = X.indptr[first]
        data[begin : begin + rows.data.size] = rows.data * np.repeat(scale, np.diff(rows.indptr))
    return sparse.csr_matrix((data, X.indices, X.indptr), shape=X.shape)
