"""Labels by name: lists of names per point, and DataFrames whose columns are labels."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from longtail.core.inputs import check_label_names, check_labels
from longtail.errors import DataError


def labels_and_names(
    Y: Any, label_names: Sequence[str] | None = None, *, n_points: int | None = None, relevances: bool = False
) -> tuple[sparse.csr_matrix, list[str] | None]:
    """Return labels as an indicator matrix, and their names.

    Parameters
    ----------
    Y : sparse matrix, array, DataFrame or list of lists
        What `check_labels` takes, or one list of label names per point. The columns of a DataFrame are label names.
    label_names : sequence of str, optional
        Names of the labels, in order; names in Y must be among them. By default those in Y, sorted.
    n_points : int, optional
        Number of points that Y must have.
    relevances : bool, default False
        A matrix may contain relevances, from 0 to 1, instead of ones; they are kept.

    Returns
    -------
    Y : csr_matrix
    label_names : list of str or None

    Raises
    ------
    DataError
        If Y or the names are malformed, or do not match.
    """
    if sparse.issparse(Y) or getattr(Y, "ndim", 1) == 2:
        columns = list(getattr(Y, "columns", ()))
        if label_names is None and columns and all(isinstance(column, str) for column in columns):
            label_names = columns
        matrix = check_labels(Y, n_points=n_points, relevances=relevances)
        return matrix, check_label_names(label_names, matrix.shape[1])
    rows = _rows(Y)
    if rows is None or not any(isinstance(label, str) for row in rows for label in row):
        matrix = check_labels(Y if rows is None else rows, n_points=n_points)
        return matrix, check_label_names(label_names, matrix.shape[1])
    names = sorted({str(label) for row in rows for label in row}) if label_names is None else list(label_names)
    numbers = {name: i for i, name in enumerate(names)}
    ids = [_numbers(row, numbers, i) for i, row in enumerate(rows)]
    matrix = check_labels(ids, n_points=n_points, n_labels=len(names))
    return matrix, check_label_names(names, len(names))


def labels_as_known(Y: Any, known: list[str] | None, n_known: int, *, n_points: int) -> sparse.csr_matrix:
    """Return labels as a matrix whose first columns are the labels that a model knows, in its order.

    Parameters
    ----------
    Y : sparse matrix, array, DataFrame, or list of lists
        Observed labels; names are matched with `known`.
    known : list of str or None
        Names of the labels that the model knows.
    n_known : int
        Their number.
    n_points : int
        Number of points that Y must have.

    Returns
    -------
    csr_matrix of shape (n_points, at least n_known)
        Labels that the model does not know have further columns.
    """
    observed, names = _present(Y, n_points)
    if names is not None and known is not None:
        numbers = {name: i for i, name in enumerate(known)}
        columns = np.array([numbers.get(name, len(known) + i) for i, name in enumerate(names)], dtype=np.int32)
        observed = sparse.csr_matrix(
            (observed.data, columns[observed.indices], observed.indptr),
            shape=(n_points, len(known) + len(names)),
        )
        observed.sort_indices()
        return observed
    return sparse.csr_matrix(
        (observed.data, observed.indices, observed.indptr), shape=(n_points, max(observed.shape[1], n_known))
    )


def share_of_hits(best: NDArray[np.int32], Y: Any, label_names: list[str] | None) -> float:
    """Return the share of points whose best label is observed, P@1.

    Parameters
    ----------
    best : ndarray of shape (n_points,)
        Label id per point; -1 where there is none.
    Y : sparse matrix, array, DataFrame, or list of lists
        Observed labels; names are matched with `label_names`.
    label_names : list of str or None
        Names of the labels that ids stand for.

    Returns
    -------
    float
    """
    observed, names = _present(Y, best.size)
    if names is not None and label_names is not None:  # columns are in the order of Y's own names
        numbers = {name: i for i, name in enumerate(names)}
        best = np.array([*(numbers.get(name, -1) for name in label_names), -1])[best]
    asked = np.flatnonzero((best >= 0) & (best < observed.shape[1]))
    return float(observed[asked, best[asked]].sum()) / best.size


def _present(Y: Any, n_points: int) -> tuple[sparse.csr_matrix, list[str] | None]:
    """Return labels and names of points to judge by: whatever its relevance, a label is present."""
    found, names = labels_and_names(Y, n_points=n_points, relevances=True)
    ones = np.ones_like(found.data)
    return sparse.csr_matrix((ones, found.indices, found.indptr), shape=found.shape), names


def _rows(Y: Any) -> list[Any] | None:
    """Return the labels of each point, or None if Y is no list of lists, which `check_labels` will say."""
    if isinstance(Y, (str, bytes)) or not isinstance(Y, Iterable):
        return None
    rows = list(Y)
    for i, row in enumerate(rows):
        if isinstance(row, str):
            raise DataError(
                f"the labels of point {i} are one string, {row[:40]!r}; give a list of label names per point, e.g. "
                "Y.str.split(';') of a column"
            )
        if not isinstance(row, Iterable):
            return None
    return [row if hasattr(row, "dtype") else list(row) for row in rows]


def _numbers(row: Iterable[Any], numbers: dict[str, int], point: int) -> list[int]:
    found = []
    for label in row:
        if not isinstance(label, str):
            raise DataError(f"the labels of point {point} mix names and numbers ({label!r}); use names, or ids")
        if label not in numbers:
            raise DataError(f"the label {label!r} of point {point} is not in label_names")
        found.append(numbers[label])
    return found
