"""Labels by name: number them while a file is read, and read the table that describes them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from longtail.core.inputs import PathLike
from longtail.core.workspace import Growing, Workspace
from longtail.data import files
from longtail.errors import DataError, ParameterError, first_line

SEPARATOR = ";"  # between the labels in a cell of a table
_ROWS = 1 << 16  # points whose labels are renumbered at once


def distinct(label_names: Sequence[str]) -> list[str]:
    """Return the names as a list, or raise ParameterError if one occurs twice."""
    names = list(label_names)
    if len(set(names)) != len(names):
        raise ParameterError("label_names contains a name twice; label names must be distinct")
    return names


class LabelCollector:
    """Builder of an indicator matrix from the label names of one point after another.

    Ids follow `label_names`; other names get the ids after it, in sorted order. Without `label_names` all ids are in
    sorted order, so they do not depend on the order of the points.

    Parameters
    ----------
    label_names : sequence of str, optional
        Names of the first labels.
    workspace : Workspace, optional
        Where the matrix is; in memory by default.
    """

    def __init__(self, label_names: Sequence[str] | None = None, workspace: Workspace | None = None) -> None:
        self._given = [] if label_names is None else distinct(label_names)
        self._ids = {name: i for i, name in enumerate(self._given)}
        self._workspace = workspace or Workspace()
        self._indices, self._indptr = self._workspace.growing(np.int32), self._workspace.growing(np.int64)
        self._indptr.append(0)
        self._values: Growing | None = None  # relevances, from the first that is not 1

    def add_point(self, names: Iterable[str], relevances: Sequence[float] | None = None) -> None:
        """Add the labels of the next point; a name that occurs twice counts once.

        Parameters
        ----------
        names : iterable of str
            Names of its labels.
        relevances : sequence of float, optional
            Relevance of each label, from 0 to 1; a label of relevance 0 is left out. The largest of a name counts.
        """
        ids = self._ids
        if relevances is None:
            chosen = sorted({ids.setdefault(name, len(ids)) for name in names})
            if self._values is not None:
                self._values.extend(1.0 for _ in chosen)
        else:
            largest: dict[int, float] = {}
            for name, relevance in zip(names, relevances, strict=True):
                if relevance > 0:
                    label = ids.setdefault(name, len(ids))
                    largest[label] = max(largest.get(label, 0.0), relevance)
            chosen = sorted(largest)
            if self._values is None and any(relevance != 1 for relevance in largest.values()):
                self._values = self._workspace.growing(np.float32)
                self._values.extend_bytes(np.ones(len(self._indices), np.float32).data)
            if self._values is not None:
                self._values.extend(largest[label] for label in chosen)
        self._indices.extend(chosen)
        self._indptr.append(len(self._indices))

    def finish(self) -> tuple[sparse.csr_matrix, list[str]]:
        """Return Y and the names of its columns."""
        found = list(self._ids)
        fresh = found[len(self._given) :]
        names = self._given + sorted(fresh)
        new_id = {name: i for i, name in enumerate(names)}
        renumbered = np.fromiter((new_id[name] for name in found), dtype=np.int32, count=len(found))
        indptr = self._indptr.array()
        values = None if self._values is None else self._values.array()
        rows = renumbered_rows(self._indices.array(), values, indptr, renumbered, len(names))
        data, indices = self._workspace.joined(rows, (np.float32, np.int32))
        return sparse.csr_matrix((data, indices, indptr), shape=(indptr.size - 1, len(names)), copy=False), names


def renumbered_rows(
    indices: NDArray[np.int32],
    values: NDArray[np.float32] | None,
    indptr: NDArray[np.int64],
    new_ids: NDArray[np.int32],
    width: int,
) -> Iterator[tuple[NDArray[np.float32], NDArray[np.int32]]]:
    """Yield values and new ids of the labels of some points after another, in order within each point.

    Parameters
    ----------
    indices : array of int32
        Ids of the labels of all points.
    values : array of float32 or None
        Values of these; None for 1.
    indptr : array of int64
        Where the labels of each point begin, and the end.
    new_ids : array of int32
        New id of each label.
    width : int
        Number of labels.

    Yields
    ------
    (array of float32, array of int32)
    """
    for first in range(0, indptr.size - 1, _ROWS):
        starts = indptr[first : first + _ROWS + 1]
        own = slice(int(starts[0]), int(starts[-1]))
        found = new_ids[indices[own]]
        data = np.ones(found.size, np.float32) if values is None else np.array(values[own])
        part = sparse.csr_matrix((data, found, starts - starts[0]), shape=(starts.size - 1, width))
        part.sort_indices()
        yield part.data, part.indices


@dataclass(frozen=True)
class LabelTable:
    """Descriptions of labels, by label id as it occurs in the data.

    Attributes
    ----------
    names : dict of str to str
        Preferred name per label.
    alternatives : dict of str to list of str
        Alternative names per label.
    parents : dict of str to list of str
        Ids of the direct parents per label.
    """

    names: dict[str, str]
    alternatives: dict[str, list[str]] = field(default_factory=dict)
    parents: dict[str, list[str]] = field(default_factory=dict)


def read_label_table(path: PathLike) -> LabelTable:
    """Read a label table from JSON.

    Parameters
    ----------
    path : str or path-like
        JSON file, plain or compressed (.gz, .xz, .zst), with one object that maps each label id to its name or to an
        object `{"label": name, "alt_labels": [name, ...], "parents": [id, ...]}`; the lists are optional.

    Returns
    -------
    LabelTable

    Raises
    ------
    DataError
        If the file is missing, damaged or of another shape.
    """
    with files.reading(path) as stream:
        content = stream.read()
    try:
        entries = json.loads(content.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise DataError(f"is not JSON in UTF-8 ({first_line(error)})", path=path) from error
    if not isinstance(entries, dict):
        raise DataError("must be one JSON object that maps label ids to names or objects", path=path)
    table = LabelTable({})
    for label, entry in entries.items():
        if isinstance(entry, str):
            table.names[label] = entry
            continue
        if not isinstance(entry, dict) or not isinstance(entry.get("label"), str):
            raise DataError('must be a name or an object with a string "label"', path=path, field=label)
        table.names[label] = entry["label"]
        table.alternatives[label] = _string_list(entry.get("alt_labels", []), path, f"{label}.alt_labels")
        table.parents[label] = _string_list(entry.get("parents", []), path, f"{label}.parents")
    return table


def _string_list(value: Any, path: PathLike, name: str) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise DataError("must be a list of strings", path=path, field=name)
    return value
