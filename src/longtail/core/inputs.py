"""Turning what callers pass into the two shapes that models work on: CSR float32 features, CSR label indicators."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence, Set
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from longtail.errors import DataError, ParameterError

PathLike = str | os.PathLike[str]  # where a file or a folder is named

LARGEST_SQUARED_LENGTH = 1e20  # of a point's features
MOST_COLUMNS = np.iinfo(np.int32).max  # features or labels: kernels see indices of int32
MOST_LISTED_LABELS = 100_000_000  # the largest id in a list says how many labels there are: arrays are made that long


def check_features(X: Any, *, n_features: int | None = None) -> sparse.csr_matrix:
    """X as CSR float32 with sorted int32 indices; no copy where it is that already."""
    if getattr(getattr(X, "dtype", None), "kind", "") == "c":  # NumPy would drop the imaginary parts
        raise DataError("X holds complex numbers; features are real")
    with np.errstate(over="ignore"):  # what float32 cannot hold becomes infinite, and is an error below
        matrix = sparse.csr_matrix(X if sparse.issparse(X) else _dense(X), dtype=np.float32)
    matrix = _canonical(_narrowed(matrix, "features"))
    if not np.isfinite(matrix.data).all():
        row = int(np.searchsorted(matrix.indptr, np.flatnonzero(~np.isfinite(matrix.data))[0], side="right")) - 1
        raise DataError(f"the features of point {row} hold a NaN or infinite value")
    if n_features is not None and matrix.shape[1] != n_features:
        raise DataError(f"X has {matrix.shape[1]} features, but the model was fitted with {n_features}")
    return matrix


def _dense(X: Any) -> np.ndarray[Any, Any]:
    if X is None:
        raise DataError(
            "X is None, but the model needs features: a sparse matrix or a two-dimensional array of numbers"
        )
    try:
        dense = np.asarray(X, dtype=np.float32)
    except (TypeError, ValueError) as error:
        raise DataError(
            "X must be a sparse matrix or a two-dimensional array of numbers; for texts wrap the model in TextPipeline"
        ) from error
    if dense.ndim != 2:
        raise DataError(f"X must have two dimensions (points, features); it has {dense.ndim}")
    return dense


def check_texts(X: Any) -> Sequence[str]:
    """X as texts that have an order and can be read more than once: what another iterable gives becomes a list."""
    if X is None:
        raise DataError("X is None, but the model needs texts: a sequence of strings")
    if isinstance(X, np.ndarray) and X.ndim == 1 and X.dtype.kind in "UO":
        return X  # type: ignore[return-value]
    if sparse.issparse(X) or isinstance(X, np.ndarray) or getattr(X, "ndim", 1) != 1:
        raise DataError("X must be a sequence of texts; the model needs texts, and these look like features")
    if isinstance(X, (str, bytes, Mapping, Set)) or not isinstance(X, Iterable):
        raise DataError(f"X must be a sequence of texts, not {type(X).__name__}; put a single text into a list")
    return X if isinstance(X, Sequence) else list(X)


def squared_lengths(matrix: sparse.csr_matrix) -> NDArray[np.float64]:
    """Of each row; in float64, since squares of large and of tiny float32 numbers are beyond float32."""
    squares = sparse.csr_matrix((np.square(matrix.data, dtype=np.float64), matrix.indices, matrix.indptr), matrix.shape)
    lengths: NDArray[np.float64] = np.asarray(squares.sum(axis=1)).ravel()
    return lengths


def check_lengths(matrix: sparse.csr_matrix) -> sparse.csr_matrix:
    """The matrix, if its rows are short enough that float32 can square and add up what models make of them."""
    largest = float(np.abs(matrix.data).max(initial=0))
    if largest * largest * matrix.shape[1] <= LARGEST_SQUARED_LENGTH:
        return matrix  # nearly always: no need to look at rows
    lengths = squared_lengths(matrix)
    if lengths.max() > LARGEST_SQUARED_LENGTH:
        raise DataError(
            f"the features of point {lengths.argmax()} have the squared length {lengths.max():g}, more than "
            f"{LARGEST_SQUARED_LENGTH:g}; scale rows to unit length (longtail.UnitRows, longtail train --unit-rows)"
        )
    return matrix


def _narrowed(matrix: sparse.csr_matrix, columns: str) -> sparse.csr_matrix:
    """With indices of int32, so that kernels see one type (SciPy makes int64 for large or stacked matrices)."""
    if matrix.shape[1] > MOST_COLUMNS:
        raise DataError(
            f"a matrix has {matrix.shape[1]:,} {columns}, but may have {MOST_COLUMNS:,}; number those in use from 0"
        )
    if matrix.indices.dtype == np.int32:
        return matrix
    return sparse.csr_matrix(
        (matrix.data, matrix.indices.astype(np.int32), matrix.indptr), shape=matrix.shape, copy=False
    )


def _canonical(matrix: sparse.csr_matrix) -> sparse.csr_matrix:
    if matrix.has_canonical_format:
        return matrix
    matrix = matrix.copy()  # never change what the caller passed
    matrix.sum_duplicates()
    return matrix


def check_labels(Y: Any, *, n_points: int | None = None, n_labels: int | None = None) -> sparse.csr_matrix:
    """Y as a CSR indicator matrix with float32 ones; takes sparse or dense 0/1 matrices, or lists of label ids."""
    if sparse.issparse(Y):
        matrix = sparse.csr_matrix(Y, dtype=np.float32)
    elif getattr(Y, "ndim", 1) == 2:  # an array or a DataFrame, whose columns are the labels
        matrix = sparse.csr_matrix(_zeros_and_ones(Y))
    else:
        matrix = labels_from_lists(Y, n_labels=n_labels)
    matrix = _canonical(_narrowed(matrix, "labels"))
    if matrix.data.size and not (matrix.data == 1).all():
        if not (matrix.data == 0).any() or not np.isin(matrix.data, (0, 1)).all():
            raise DataError("Y must hold only zeros and ones (a label is present or not)")
        matrix = matrix.copy()
        matrix.eliminate_zeros()
    if n_points is not None and matrix.shape[0] != n_points:
        raise DataError(f"X has {n_points} points, but Y has {matrix.shape[0]}")
    if n_labels is not None and matrix.shape[1] != n_labels:
        raise DataError(f"Y has {matrix.shape[1]} labels where {n_labels} are expected")
    return matrix


def _zeros_and_ones(Y: Any) -> np.ndarray[Any, Any]:
    try:
        return np.asarray(Y).astype(np.float32)
    except (TypeError, ValueError) as error:
        raise DataError(f"Y must hold only zeros and ones (a label is present or not): {error}") from error


def labels_from_lists(lists: Iterable[Iterable[int]], *, n_labels: int | None = None) -> sparse.csr_matrix:
    """An indicator matrix from one list of label ids a point; an id twice in a list counts once."""
    try:
        rows = [_ids(row) for row in lists]
    except (TypeError, ValueError, OverflowError) as error:
        raise DataError("Y must be an indicator matrix, or one list of label ids (integers) a point") from error
    distinct = [np.unique(row) for row in rows]
    indices = np.concatenate(distinct) if rows else np.empty(0, np.int64)
    if indices.size and indices.min() < 0:
        raise DataError(f"label id {indices.min()} is negative")
    largest = int(indices.max(initial=-1))
    if n_labels is None and largest >= MOST_LISTED_LABELS:
        raise DataError(
            f"label id {largest} is too large: ids of L labels are 0 to L-1, and lists may hold ids below "
            f"{MOST_LISTED_LABELS:,}; map yours to these, e.g. with np.unique(ids, return_inverse=True)"
        )
    width = largest + 1 if n_labels is None else n_labels
    if largest >= width:
        raise DataError(f"label id {largest} is out of range: there are {width} labels")
    if largest <= 1 and len({row.size for row in rows}) == 1 and indices.size < sum(row.size for row in rows):
        raise DataError(
            "the lists of Y look like rows of a 0/1 matrix, but lists hold label ids: give indicators as np.array(Y) "
            "or a sparse matrix, or give each point the list of its label ids, each id once"
        )
    indptr = np.concatenate([[0], np.cumsum([row.size for row in distinct])]).astype(np.int32)
    return sparse.csr_matrix(
        (np.ones(indices.size, np.float32), indices.astype(np.int32), indptr), shape=(len(rows), width)
    )


def _ids(row: Iterable[int]) -> np.ndarray[Any, np.dtype[np.int64]]:
    ids = np.asarray(row if isinstance(row, np.ndarray) else list(row))
    if ids.size and ids.dtype.kind not in "iu":
        raise TypeError(f"label ids of type {ids.dtype}")  # 0.5 must not become label 0
    if ids.dtype == np.uint64:
        ids = np.minimum(ids, np.uint64(np.iinfo(np.int64).max))  # too large either way, but not negative
    return ids.astype(np.int64).ravel()


def check_label_names(names: Any, n_labels: int) -> list[str] | None:
    """Names of the labels by which they can be told apart; None where there are none."""
    strings = check_label_strings("label_names", names, n_labels)
    if strings is not None and len(set(strings)) != len(strings):
        raise DataError(f"the label name {_first_repeated(strings)!r} occurs twice; label names must be distinct")
    return strings


def check_label_strings(field: str, value: Any, n_labels: int) -> list[str] | None:
    """One string for each label, e.g. its name; None where there are none."""
    if value is None:
        return None
    strings = None if isinstance(value, str) or not isinstance(value, Iterable) else list(value)
    if strings is None or not all(isinstance(item, str) for item in strings):
        raise DataError(f"{field} must be a list of strings")
    if len(strings) != n_labels:
        raise DataError(f"{field} has {len(strings)} entries, but Y has {n_labels} labels")
    names = [str(item) for item in strings]  # NumPy has strings of its own
    for name in names:
        try:
            name.encode()
        except UnicodeEncodeError as error:
            raise DataError(
                f"{field}: {name!r} holds half a character (a lone surrogate), which no file can"
            ) from error
    return names


def _first_repeated(names: list[str]) -> str:
    seen: set[str] = set()
    return next(name for name in names if name in seen or seen.add(name))  # type: ignore[func-returns-value]


def check_path(name: str, value: Any, what: str) -> Path:
    """A parameter that names a file or a folder, `what` it must be, as a string or a Path; ~ is somebody's home."""
    if not isinstance(value, (str, os.PathLike)) or not os.fspath(value):
        raise ParameterError(f"{name} is {value!r}, but must be {what}")
    try:
        return Path(value).expanduser()
    except RuntimeError as error:
        raise ParameterError(f"{name} is {os.fspath(value)!r}, but there is no such user on this machine") from error


def n_rows(X: Any) -> int:
    return int(X.shape[0]) if hasattr(X, "shape") else len(X)


def check_k(k: Any, n_labels: int) -> int:
    """k as an int in 1..n_labels."""
    if isinstance(k, bool) or not isinstance(k, (int, np.integer)):
        raise ParameterError(f"k must be a whole number, not {k!r}")
    if not 1 <= k <= n_labels:
        raise ParameterError(f"k is {k}, but must lie between 1 and the number of labels, {n_labels}")
    return int(k)
