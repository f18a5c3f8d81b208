"""Predictions to files: one row per point, with its id, columns of the input, labels and scores."""

from __future__ import annotations

import contextlib
import csv
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from longtail.core.inputs import PathLike
from longtail.core.predictions import Predictions
from longtail.data import files
from longtail.data.labels import SEPARATOR
from longtail.errors import DataError, LongtailError, OutputError, ParameterError

LISTS = ("labels", "names", "scores")  # columns with a list per point
SUPPORTED = "use .csv, .tsv, .jsonl, .parquet, .npz or .txt (all but .parquet and .npz also with .gz, .xz, .zst)"
_WHOLE = (".npz", ".parquet")  # formats with a compression of their own
_SUFFIXES = (".csv", ".tsv", ".jsonl", ".txt", *_WHOLE)


def write_predictions(
    predictions: Predictions,
    path: PathLike | BinaryIO,
    label_names: Sequence[str] | None = None,
    *,
    ids: Sequence[str] | None = None,
    label_texts: Sequence[str] | None = None,
    columns: Mapping[str, Sequence[Any]] | None = None,
    separator: str = SEPARATOR,
    overwrite: bool = False,
) -> None:
    """Write predictions; the file name chooses the format.

    Parameters
    ----------
    predictions : Predictions
        Predictions to write; scores read back as the same float32. Rows with fewer than k labels are shorter, except in
        .npz files.
    path : str, path-like or binary stream
        File with the extension .csv, .tsv, .jsonl, .parquet, .npz or .txt, all but .parquet and .npz also with .gz, .xz
        or .zst; a stream gets JSON lines.
    label_names : sequence of str, optional
        Names to write instead of label ids; .npz and .txt files store label ids only.
    ids : sequence of str, optional
        One id per point, written as the first column.
    label_texts : sequence of str, optional
        What people are shown for each label, written as the column `names` next to the labels.
    columns : mapping of str to sequence, optional
        More columns, one value per point, written before the labels.
    separator : str, default ";"
        Between the labels in a CSV or TSV cell.
    overwrite : bool, default False
        Replace an existing file, once the new one is complete.

    Raises
    ------
    OutputError
        If `path` exists, cannot be written, or has an extension or a format that cannot hold what is to be written.
    DataError
        If a predicted label has no name or text, or ids or columns are more or fewer than points.
    ParameterError
        If the separator is empty.
    """
    suffix = ".jsonl" if _is_stream(path) else suffix_of(path, OutputError)  # type: ignore[arg-type]
    shown = "the output" if _is_stream(path) else str(path)
    if suffix in (".npz", ".txt"):
        if ids is not None or columns or label_texts is not None:
            raise OutputError(f"{shown}: {suffix} files hold only label ids and scores; write .csv, .jsonl or .parquet")
        label_names = None
    rows = Rows(predictions, label_names, label_texts, ids, dict(columns or {}))
    if suffix != ".npz" and not np.isfinite(predictions.scores[predictions.labels >= 0]).all():
        raise OutputError(f"{shown}: a score is infinite, which only .npz files can store")
    if suffix in (".csv", ".tsv"):
        _check_separable(rows, separator, shown)
    opened: Any = contextlib.nullcontext(path) if _is_stream(path) else files.writing(path, overwrite=overwrite)  # type: ignore[arg-type]
    with opened as stream:
        if suffix == ".npz":
            np.savez(stream, labels=predictions.labels, scores=predictions.scores)
        elif suffix == ".parquet":
            pa.parquet.write_table(rows.table(), stream)
        else:
            for line in _lines(rows, suffix, separator):
                stream.write(line.encode())


def check_predictions_path(path: PathLike, *, overwrite: bool = False) -> None:
    """Raise OutputError if `write_predictions` could not write this file; call it before long work.

    Parameters
    ----------
    path : str or path-like
        File to write.
    overwrite : bool, default False
        Whether an existing file may be replaced.
    """
    suffix_of(path, OutputError)
    files.check_free(path, overwrite=overwrite)


def suffix_of(path: PathLike, error: type[LongtailError]) -> str:
    """Return the extension of a predictions file, or raise the error if there is no such format."""
    suffix, compression = files.suffixes(path)
    if suffix not in _SUFFIXES or (suffix in _WHOLE and compression):
        raise error(f"{path}: unsupported extension {suffix + compression!r}; {SUPPORTED}")
    return suffix


def _is_stream(path: Any) -> bool:
    return hasattr(path, "write")


@dataclass(frozen=True, eq=False)
class Rows:
    """What is written per point; see `write_predictions`."""

    predictions: Predictions
    names: Sequence[str] | None
    texts: Sequence[str] | None
    ids: Sequence[str] | None
    columns: dict[str, Sequence[Any]]

    def __post_init__(self) -> None:
        labels, n_points = self.predictions.labels, len(self.predictions)
        for strings, what in ((self.names, "label names"), (self.texts, "label texts")):
            if strings is not None and labels.size and labels.max() >= len(strings):
                raise DataError(f"label {labels.max()} is predicted, but there are only {len(strings)} {what}")
        for name, values in (("ids", self.ids), *self.columns.items()):
            if values is not None and len(values) != n_points:
                raise DataError(f"there are {n_points} points, but {len(values)} values of {name!r}")
        taken = [name for name in self.columns if name in LISTS or (name == "id" and self.ids is not None)]
        if taken:
            raise OutputError(f"the column {taken[0]!r} cannot be kept: the predictions have a column of that name")

    def __iter__(self) -> Iterator[dict[str, Any]]:
        labels, scores = self.predictions.labels, self.predictions.scores
        for i in range(len(self.predictions)):
            kept = labels[i] >= 0
            found = labels[i][kept].tolist()
            row: dict[str, Any] = {} if self.ids is None else {"id": self.ids[i]}
            row |= {name: values[i] for name, values in self.columns.items()}
            row["labels"] = found if self.names is None else [self.names[label] for label in found]
            if self.texts is not None:
                row["names"] = [self.texts[label] for label in found]
            # The shortest decimals that read back as the same float32.
            row["scores"] = [float(score) for score in pa.array(scores[i][kept]).cast(pa.string()).to_pylist()]
            yield row

    @property
    def header(self) -> list[str]:
        """Names of the columns."""
        own = ["labels", *["names"] * (self.texts is not None), "scores"]
        return [*["id"] * (self.ids is not None), *self.columns, *own]

    def table(self) -> pa.Table:
        """Return all rows as a table."""
        rows = list(self)
        label = pa.int32() if self.names is None else pa.string()
        types = {"id": pa.string(), "names": pa.list_(pa.string()), "scores": pa.list_(pa.float32())}
        types["labels"] = pa.list_(label)
        kept = dict.fromkeys(self.columns)  # their own types
        return pa.table({name: pa.array([row[name] for row in rows], (types | kept).get(name)) for name in self.header})


def _lines(rows: Rows, suffix: str, separator: str) -> Iterator[str]:
    if suffix == ".jsonl":
        for row in rows:
            yield json.dumps(row, ensure_ascii=False, default=str) + "\n"
    elif suffix == ".txt":
        for row in rows:
            pairs = zip(row["labels"], row["scores"], strict=True)
            yield " ".join(f"{label}:{score:.9g}" for label, score in pairs) + "\n"
    else:
        yield from _table_lines(rows, "\t" if suffix == ".tsv" else ",", separator)


def _table_lines(rows: Rows, delimiter: str, separator: str) -> Iterator[str]:
    buffer = io.StringIO()
    writer = csv.writer(buffer, delimiter=delimiter, lineterminator="\n")
    writer.writerow(rows.header)
    for row in rows:
        writer.writerow(
            [
                separator.join(map(str, row[name])) if name in LISTS else "" if row[name] is None else row[name]
                for name in rows.header
            ]
        )
        yield buffer.getvalue()
        buffer.seek(0)
        buffer.truncate()
    yield buffer.getvalue()  # the header, where there are no points


def _check_separable(rows: Rows, separator: str, shown: str) -> None:
    if not separator:
        raise ParameterError("the separator between labels is empty; give at least one character")
    predicted = np.unique(rows.predictions.labels)
    for strings in (rows.names, rows.texts):
        found = [] if strings is None else [strings[label] for label in predicted[predicted >= 0].tolist()]
        for string in found:
            if separator in string:
                raise OutputError(
                    f"{shown}: the label {string!r} contains {separator!r}, which separates labels in a cell; "
                    "choose another separator (separator=, --separator), or write .jsonl or .parquet"
                )
