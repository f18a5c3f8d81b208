"""Check what callers pass and convert it to the types that models use: CSR float32 features, CSR label indicators."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence, Set
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from longtail.errors import DataError, ParameterError

PathLike = str | os.PathLike[str]  # the name of a file or a folder

LARGEST_SQUARED_LENGTH = 1e20  # of a point's features
MOST_COLUMNS = np.iinfo(np.int32).max  # features or labels: kernels use int32 indices
MOST_LISTED_LABELS = 100_000_000  # the largest id in a list sets the number of labels, and so the size of arrays


def check_features(X: Any, *, n_features: int | None = None) -> sparse.csr_matrix:
    """Return features as CSR float32 with sorted int32 indices, without a copy if they are that already.

    Parameters
    ----------
    X : sparse matrix or array of shape (n_points, n_features)
        Features.
    n_features : int, optional
        Number of features that X must have.

    Returns
    -------
    csr_matrix

    Raises
    ------
    DataError
        If X is not a matrix of finite real numbers, or has another number of features.
    """
    if getattr(getattr(X, "dtype", None), "kind", "") == "c":  # NumPy would drop the imaginary part
        raise DataError("X contains complex numbers; features must be real")
    with np.errstate(over="ignore"):  # too large for float32 becomes infinite, which is an error below
        matrix = sparse.csr_matrix(X if sparse.issparse(X) else _dense(X), dtype=np.float32)
    matrix = _canonical(_narrowed(matrix, "features"))
    if not _all_finite(matrix.data):
        row = int(np.searchsorted(matrix.indptr, np.flatnonzero(~np.isfinite(matrix.data))[0], side="right")) - 1
        raise DataError(f"the features of point {row} contain a NaN or infinite value")
    if n_features is not None and matrix.shape[1] != n_features:
        raise DataError(f"X has {matrix.shape[1]} features, but the model was fitted with {n_features}")
    return matrix


def _all_finite(values: NDArray[np.float32]) -> bool:
    """Return whether there is no NaN, which minimum and maximum would be, and no infinity; needs no memory."""
    return not values.size or bool(np.isfinite(values.min()) and np.isfinite(values.max()))


def _dense(X: Any) -> np.ndarray[Any, Any]:
    if X is None:
        raise DataError(
            "X is None, but the model needs features: a sparse matrix or a two-dimensional array of numbers"
        )
    try:
        dense = np.asarray(X, dtype=np.float32)
    except (TypeError, ValueError) as error:
        raise DataError(
            "X must be a sparse matrix or a two-dimensional array of numbers; for texts, wrap the model in TextPipeline"
        ) from error
    if dense.ndim != 2:
        raise DataError(f"X must have two dimensions (points, features), but has {dense.ndim}")
    return dense


def check_texts(X: Any) -> Sequence[str]:
    """Return texts as a sequence, so that they can be read more than once.

    Parameters
    ----------
    X : iterable of str
        Texts; that they are strings is checked when they are read.

    Returns
    -------
    sequence of str
        X itself, or a list if X is another iterable.

    Raises
    ------
    DataError
        If X is a single text, a matrix, or has no order.
    """
    if X is None:
        raise DataError("X is None, but the model needs texts: a sequence of strings")
    if isinstance(X, np.ndarray) and X.ndim == 1 and X.dtype.kind in "UO":
        return X  # type: ignore[return-value]
    if sparse.issparse(X) or isinstance(X, np.ndarray) or getattr(X, "ndim", 1) != 1:
        raise DataError("X must be a sequence of texts, but looks like features")
    if isinstance(X, (str, bytes, Mapping, Set)) or not isinstance(X, Iterable):
        raise DataError(f"X must be a sequence of texts, not {type(X).__name__}; put a single text into a list")
    return X if isinstance(X, Sequence) else list(X)


def empty_rows(matrix: sparse.csr_matrix) -> NDArray[np.bool_]:
    """Return which rows hold nothing but zeros, stored or not."""
    filled = matrix if matrix.data.all() else matrix != 0
    empty: NDArray[np.bool_] = filled.getnnz(axis=1) == 0
    return empty


def squared_lengths(matrix: sparse.csr_matrix) -> NDArray[np.float64]:
    """Return the squared length of each row, in float64: squares of large and tiny numbers do not fit float32."""
    squares = sparse.csr_matrix((np.square(matrix.data, dtype=np.float64), matrix.indices, matrix.indptr), matrix.shape)
    lengths: NDArray[np.float64] = np.asarray(squares.sum(axis=1)).ravel()
    return lengths


def check_lengths(matrix: sparse.csr_matrix) -> sparse.csr_matrix:
    """Return the matrix, or raise DataError if a row is so long that float32 sums of squares could overflow."""
    largest = max(float(matrix.data.max(initial=0)), -float(matrix.data.min(initial=0)))  # no copy, as abs makes
    if largest * largest * matrix.shape[1] <= LARGEST_SQUARED_LENGTH:
        return matrix  # nearly always: no need to look at the rows
    lengths = squared_lengths(matrix)
    if lengths.max() > LARGEST_SQUARED_LENGTH:
        raise DataError(
            f"the features of point {lengths.argmax()} have squared length {lengths.max():g}, above "
            f"{LARGEST_SQUARED_LENGTH:g}; scale rows to unit length (longtail.UnitRows, longtail train --unit-rows)"
        )
    return matrix


def _narrowed(matrix: sparse.csr_matrix, columns: str) -> sparse.csr_matrix:
    """Return the matrix with int32 indices, the one type of the kernels (SciPy uses int64 for large matrices)."""
    if matrix.shape[1] > MOST_COLUMNS:
        raise DataError(
            f"a matrix has {matrix.shape[1]:,} {columns}, but may have at most {MOST_COLUMNS:,}; "
            "renumber those in use from 0"
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


def check_labels(
    Y: Any, *, n_points: int | None = None, n_labels: int | None = None, relevances: bool = False
) -> sparse.csr_matrix:
    """Return labels as a CSR indicator matrix with float32 ones.

    Parameters
    ----------
    Y : sparse matrix, array, DataFrame or list of lists
        A 0/1 matrix with one column per label, or one list of label ids per point.
    n_points : int, optional
        Number of points that Y must have.
    n_labels : int, optional
        Number of labels that Y must have; lists then need not contain the largest id.
    relevances : bool, default False
        Y may contain relevances, from 0 to 1, instead of ones; they are kept.

    Returns
    -------
    csr_matrix

    Raises
    ------
    DataError
        If Y is malformed or has other numbers of points or labels.
    """
    if sparse.issparse(Y):
        matrix = sparse.csr_matrix(Y, dtype=np.float32)
    elif getattr(Y, "ndim", 1) == 2:  # an array or a DataFrame, whose columns are the labels
        matrix = sparse.csr_matrix(_zeros_and_ones(Y))
    else:
        matrix = labels_from_lists(Y, n_labels=n_labels)
    matrix = _canonical(_narrowed(matrix, "labels"))
    if matrix.data.size and not (matrix.data == 1).all():
        _check_values(matrix.data, relevances=relevances)
        if not matrix.data.all():
            matrix = matrix.copy()
            matrix.eliminate_zeros()
    if n_points is not None and matrix.shape[0] != n_points:
        raise DataError(f"X has {n_points} points, but Y has {matrix.shape[0]}")
    if n_labels is not None and matrix.shape[1] != n_labels:
        raise DataError(f"Y has {matrix.shape[1]} labels, but {n_labels} are expected")
    return matrix


def _check_values(values: NDArray[np.float32], *, relevances: bool) -> None:
    between = (values > 0) & (values < 1)
    if not (between | np.isin(values, (0, 1))).all():
        also = ", or relevances from 0 to 1" if relevances else ""
        raise DataError(f"Y must contain only zeros and ones (a label is present or not){also}")
    if between.any() and not relevances:
        raise DataError(
            f"Y contains relevances of labels, such as {values[between][0]:g}, but only zeros and ones can be used "
            "here; drop them by Dataset.binary(), or while reading (relevance=None, --relevance-field '')"
        )


def _zeros_and_ones(Y: Any) -> np.ndarray[Any, Any]:
    try:
        return np.asarray(Y).astype(np.float32)
    except (TypeError, ValueError) as error:
        raise DataError(f"Y must contain only zeros and ones (a label is present or not): {error}") from error


def labels_from_lists(lists: Iterable[Iterable[int]], *, n_labels: int | None = None) -> sparse.csr_matrix:
    """Return an indicator matrix from one list of label ids per point; an id that occurs twice counts once."""
    try:
        rows = [_ids(row) for row in lists]
    except (TypeError, ValueError, OverflowError) as error:
        raise DataError("Y must be an indicator matrix, or one list of label ids (integers) per point") from error
    distinct = [np.unique(row) for row in rows]
    indices = np.concatenate(distinct) if rows else np.empty(0, np.int64)
    if indices.size and indices.min() < 0:
        raise DataError(f"label id {indices.min()} is negative")
    largest = int(indices.max(initial=-1))
    if n_labels is None and largest >= MOST_LISTED_LABELS:
        raise DataError(
            f"label id {largest} is too large: ids of L labels are 0 to L-1, and ids in lists must be below "
            f"{MOST_LISTED_LABELS:,}; renumber yours, e.g. with np.unique(ids, return_inverse=True)"
        )
    width = largest + 1 if n_labels is None else n_labels
    if largest >= width:
        raise DataError(f"label id {largest} is out of range: there are {width} labels")
    if largest <= 1 and len({row.size for row in rows}) == 1 and indices.size < sum(row.size for row in rows):
        raise DataError(
            "the lists in Y look like rows of a 0/1 matrix, but must contain label ids: pass a 0/1 matrix as "
            "np.array(Y) or as a sparse matrix, or one list of label ids per point, each id once"
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
    """Return label names as a list of distinct strings, or None if there are none.

    Parameters
    ----------
    names : iterable of str or None
        One name per label.
    n_labels : int
        Number of labels.

    Returns
    -------
    list of str or None

    Raises
    ------
    DataError
        If the names are not distinct strings, or there are more or fewer than labels.
    """
    strings = check_label_strings("label_names", names, n_labels)
    if strings is not None and len(set(strings)) != len(strings):
        raise DataError(f"the label name {_first_repeated(strings)!r} occurs twice; label names must be distinct")
    return strings


def check_label_strings(field: str, value: Any, n_labels: int) -> list[str] | None:
    """Return one string per label, e.g. its description, or None if there are none.

    Parameters
    ----------
    field : str
        Name of the argument, for messages.
    value : iterable of str or None
        One string per label.
    n_labels : int
        Number of labels.

    Returns
    -------
    list of str or None

    Raises
    ------
    DataError
        If these are not strings that a file can store, or there are more or fewer than labels.
    """
    if value is None:
        return None
    strings = None if isinstance(value, str) or not isinstance(value, Iterable) else list(value)
    if strings is None or not all(isinstance(item, str) for item in strings):
        raise DataError(f"{field} must be a list of strings")
    if len(strings) != n_labels:
        raise DataError(f"{field} has {len(strings)} entries, but Y has {n_labels} labels")
    names = [str(item) for item in strings]  # NumPy has its own string type
    for name in names:
        try:
            name.encode()
        except UnicodeEncodeError as error:
            raise DataError(f"{field}: {name!r} contains a lone surrogate, which cannot be encoded as UTF-8") from error
    return names


def _first_repeated(names: list[str]) -> str:
    seen: set[str] = set()
    return next(name for name in names if name in seen or seen.add(name))  # type: ignore[func-returns-value]


def check_path(name: str, value: Any, what: str) -> Path:
    """Return a parameter that names a file or a folder as a Path, with ~ expanded.

    Parameters
    ----------
    name : str
        Name of the parameter, for messages.
    value : str or path-like
        Its value.
    what : str
        What it must be, e.g. "a folder".

    Returns
    -------
    Path

    Raises
    ------
    ParameterError
        If the value is not a path, or names the home of an unknown user.
    """
    if not isinstance(value, (str, os.PathLike)) or not os.fspath(value):
        raise ParameterError(f"{name} is {value!r}, but must be {what}")
    try:
        return Path(value).expanduser()
    except RuntimeError as error:
        raise ParameterError(f"{name} is {os.fspath(value)!r}, but there is no such user on this machine") from error


def n_rows(X: Any) -> int:
    """Return the number of points, of a matrix or of a sequence of texts."""
    return int(X.shape[0]) if hasattr(X, "shape") else len(X)


def one_point(point: Any, input_kind: str) -> Any:
    """Return one point as inputs with one row: a text in a list, or features as a matrix of one row."""
    if input_kind == "text":
        if not isinstance(point, str):
            raise DataError(f"explain takes one text, not {type(point).__name__}")
        return [point]
    if isinstance(point, str):
        raise DataError("explain takes the features of one point: the model was trained on features, not on texts")
    X = point if sparse.issparse(point) else np.atleast_2d(_dense(point))
    if X.shape[0] != 1:
        raise DataError(f"explain takes one point, not {X.shape[0]}")
    return X


def check_k(k: Any, n_labels: int) -> int:
    """Return k as an int, at most `n_labels`, or raise ParameterError if it is not a whole number of at least 1."""
    if isinstance(k, bool) or not isinstance(k, (int, np.integer)):
        raise ParameterError(f"k must be a whole number, not {k!r}")
    if k < 1:
        raise ParameterError(f"k is {k}, but must be at least 1")
    return min(int(k), n_labels)
