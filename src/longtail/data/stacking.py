"""Datasets one behind the other: each is added to the end of what is there, and need not be kept.

A dataset whose arrays are in files has a file open for each of them, and a process may have a thousand open files: as
many shards are nothing unusual.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from longtail.core.workspace import Growing, Workspace
from longtail.data.dataset import Dataset
from longtail.data.labels import distinct, renumbered_rows
from longtail.data.texts import Texts
from longtail.errors import DataError

_CONTENT = {"X": "features", "texts": "texts", "label_names": "names of labels", "ids": "ids", "weights": "weights"}
_AT_ONCE = 1 << 20  # entries that are copied together


def concatenate(
    parts: Iterable[tuple[Path, Dataset]],
    label_names: Sequence[str] | None = None,
    workspace: Workspace | None = None,
) -> Dataset:
    """Return the points of all datasets as one, labels matched by name where they have names.

    Parameters
    ----------
    parts : iterable of (Path, Dataset)
        Datasets and the files that they come from, one at least; read once.
    label_names : sequence of str, optional
        Label ids follow this list; other labels come after it, in sorted order.
    workspace : Workspace, optional
        Where the result is; in memory by default.

    Returns
    -------
    Dataset

    Raises
    ------
    DataError
        If one of the datasets has something that another one has not.
    """
    parts = iter(parts)
    path, part = next(parts)
    stack = _Stack(path, part, label_names, workspace or Workspace())
    for path, part in parts:
        stack.add(path, part)
    return stack.dataset()


class _Stack:
    """What was added so far; it begins with the first dataset."""

    def __init__(self, path: Path, part: Dataset, label_names: Sequence[str] | None, workspace: Workspace) -> None:
        self._first = path
        self._has = {name: getattr(part, name) is not None for name in _CONTENT}
        self._given = [] if label_names is None else distinct(label_names)
        self._columns = {name: column for column, name in enumerate(self._given)}
        self._label_texts: dict[str, str] = {}
        self._X, self._Y = _Rows(workspace), _Rows(workspace)
        self._texts, self._ids = _Strings(workspace), _Strings(workspace)
        self._weights: list[NDArray[np.float32]] = []
        self.add(path, part)

    def add(self, path: Path, part: Dataset) -> None:
        self._check(path, part)
        columns = None
        if part.label_names is not None:
            found = (self._columns.setdefault(name, len(self._columns)) for name in part.label_names)
            columns = np.fromiter(found, np.int32, len(part.label_names))
            self._label_texts |= dict(zip(part.label_names, part.label_texts or (), strict=False))
        self._Y.add(part.Y, columns)
        if part.X is not None:
            self._X.add(part.X)
        if part.texts is not None:
            self._texts.add(part.texts)
        if part.ids is not None:
            self._ids.add(part.ids)
        if part.weights is not None:
            self._weights.append(part.weights)

    def _check(self, path: Path, part: Dataset) -> None:
        for name, what in _CONTENT.items():
            if (getattr(part, name) is not None) != self._has[name]:
                one, other = (self._first, path) if self._has[name] else (path, self._first)
                raise DataError(f"has {what}, but {other} has none; read them one after the other", path=one)

    def dataset(self) -> Dataset:
        """Return all that was added."""
        names, texts = None, self._label_texts
        if self._has["label_names"]:
            names = self._given + sorted(list(self._columns)[len(self._given) :])
        return Dataset(
            Y=self._Y.matrix() if names is None else self._Y.renumbered(self._new_columns(names), len(names)),
            X=self._X.matrix() if self._has["X"] else None,
            texts=self._texts.texts() if self._has["texts"] else None,
            label_names=names,
            label_texts=[texts.get(name, name) for name in names] if names is not None and texts else None,
            ids=self._ids.texts() if self._has["ids"] else None,
            weights=np.concatenate(self._weights) if self._has["weights"] else None,
        )

    def _new_columns(self, names: list[str]) -> NDArray[np.int32]:
        position = {name: column for column, name in enumerate(names)}
        return np.fromiter((position[name] for name in self._columns), np.int32, len(names))


class _Rows:
    """Rows of a sparse matrix."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace, self._width = workspace, 0
        self._data, self._indices = workspace.growing(np.float32), workspace.growing(np.int32)
        self._starts = workspace.growing(np.int64)
        self._starts.append(0)

    def add(self, rows: sparse.csr_matrix, columns: NDArray[np.int32] | None = None) -> None:
        """Add rows; `columns` has the column that each of theirs has here."""
        self._width = max(self._width, rows.shape[1])
        _extend(self._starts, (rows.indptr[1:] + np.int64(len(self._indices)),))
        _extend(self._data, _pieces(rows.data))
        _extend(self._indices, (part if columns is None else columns[part] for part in _pieces(rows.indices)))

    def matrix(self) -> sparse.csr_matrix:
        """Return the matrix, as wide as the widest that was added."""
        return _csr(self._data.array(), self._indices.array(), self._starts.array(), self._width)

    def renumbered(self, columns: NDArray[np.int32], width: int) -> sparse.csr_matrix:
        """Return the matrix with other columns, in order within each row."""
        starts = self._starts.array()
        rows = renumbered_rows(self._indices.array(), self._data.array(), starts, columns, width)
        data, indices = self._workspace.joined(rows, (np.float32, np.int32))
        return _csr(data, indices, starts, width)


class _Strings:
    """Texts in one buffer."""

    def __init__(self, workspace: Workspace) -> None:
        self._bytes, self._offsets = workspace.growing(np.uint8), workspace.growing(np.int64)
        self._offsets.append(0)

    def add(self, texts: Texts) -> None:
        packed = texts.packed()
        _extend(self._offsets, (packed.offsets[1:] + len(self._bytes),))
        _extend(self._bytes, _pieces(packed.buffer))

    def texts(self) -> Texts:
        return Texts(self._bytes.array(), self._offsets.array())


def _pieces(array: NDArray[np.generic]) -> Iterator[NDArray[np.generic]]:
    return (array[first : first + _AT_ONCE] for first in range(0, array.size, _AT_ONCE))


def _extend(growing: Growing, pieces: Iterable[NDArray[np.generic]]) -> None:
    for piece in pieces:
        growing.extend_bytes(np.ascontiguousarray(piece, growing.dtype).data)


def _csr(
    data: NDArray[np.float32], indices: NDArray[np.int32], starts: NDArray[np.int64], width: int
) -> sparse.csr_matrix:
    return sparse.csr_matrix((data, indices, starts), shape=(starts.size - 1, width), copy=False)
