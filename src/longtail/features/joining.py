"""Rows of features side by side and one below the other; indices are always int32, which SciPy does not guarantee."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from longtail.core.workspace import Workspace


def side_by_side(parts: Sequence[sparse.csr_matrix], weights: Sequence[float]) -> sparse.csr_matrix:
    """Put matrices of unit rows side by side, and scale the rows to length 1 again.

    Parameters
    ----------
    parts : sequence of csr_matrix
        Rows of length 1, or empty rows, of the same points.
    weights : sequence of float
        Length of each part within a row in which no part is empty, before the row is scaled.

    Returns
    -------
    csr_matrix of float32
        A row is empty if it is empty in every part.
    """
    sizes = [np.diff(part.indptr) for part in parts]
    squares = np.sum([(size > 0) * weight**2 for size, weight in zip(sizes, weights, strict=True)], axis=0)
    scale = np.divide(1.0, np.sqrt(squares), out=np.zeros(squares.size), where=squares > 0)
    starts = np.cumsum([0, *(part.shape[1] for part in parts)])
    # An entry of row i is behind all entries of rows above it, and behind those of row i in the parts before.
    indptr = np.concatenate([[0], np.cumsum(np.sum(sizes, axis=0), dtype=np.int64)])
    data, indices = np.empty(indptr[-1], np.float32), np.empty(indptr[-1], np.int32)
    before = indptr[:-1].copy()
    for part, size, weight, start in zip(parts, sizes, weights, starts[:-1], strict=True):
        place = np.arange(part.data.size) + np.repeat(before - part.indptr[:-1], size)
        data[place] = part.data * np.repeat(scale * weight, size)
        indices[place] = part.indices + np.int32(start)
        before += size
    return _csr(data, indices, indptr, int(starts[-1]))


def of_dense(vectors: NDArray[np.float32]) -> sparse.csr_matrix:
    """Return dense rows as CSR; a row of zeros is empty, any other has an entry per column."""
    width = vectors.shape[1]
    known = vectors.any(axis=1)
    indptr = np.concatenate([[0], np.cumsum(np.where(known, width, 0))])
    indices = np.tile(np.arange(width, dtype=np.int32), int(known.sum()))
    return _csr(vectors[known].ravel(), indices, indptr, width)


def with_last_column(X: sparse.csr_matrix, value: np.float32) -> sparse.csr_matrix:
    """Return the rows with a constant behind them."""
    n, width = X.shape
    ends = X.indptr[1:]
    indices = np.insert(X.indices, ends, np.int32(width))
    indptr = X.indptr + np.arange(n + 1, dtype=np.int32)
    return sparse.csr_matrix((np.insert(X.data, ends, value), indices, indptr), shape=(n, width + 1))


def stacked(
    blocks: Iterable[sparse.csr_matrix], n_columns: int, workspace: Workspace | None = None
) -> sparse.csr_matrix:
    """Stack blocks of rows, in files where the workspace has a folder."""
    pieces = ((part.data, part.indices, np.diff(part.indptr)) for part in blocks)
    data, indices, sizes = (workspace or Workspace()).joined(pieces, (np.float32, np.int32, np.int64))
    return _csr(data, indices, np.concatenate([[0], np.cumsum(sizes)]), n_columns)


def _csr(
    data: NDArray[np.float32], indices: NDArray[np.int32], indptr: NDArray[np.int64], n_columns: int
) -> sparse.csr_matrix:
    starts = indptr.astype(np.int32) if indptr[-1] <= np.iinfo(np.int32).max else indptr
    X = sparse.csr_matrix((data, indices, starts), shape=(indptr.size - 1, n_columns), copy=False)
    X.has_canonical_format = True
    return X
