"""Columns of a table or of JSON lines as they are, beside texts and labels: what `predict --keep` passes through."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet

from longtail.core.inputs import PathLike
from longtail.core.plain import plain
from longtail.data import files, tables
from longtail.data.encodings import as_utf8
from longtail.data.jsonl import read_objects
from longtail.data.reading import Reading
from longtail.data.volume import Volume, texts_stored_once
from longtail.errors import DataError

_DELIMITERS = {".csv": ",", ".tsv": "\t"}


def read_columns(path: PathLike, columns: Sequence[str], reading: Reading | None = None) -> dict[str, list[Any]]:
    """Return columns of a CSV, TSV, Parquet or JSON lines file.

    Parameters
    ----------
    path : str or path-like
        The file; CSV, TSV and JSON lines may be compressed.
    columns : sequence of str
        Names of columns or fields.
    reading : Reading, optional
        Delimiter and encoding of a CSV file, if they are known.

    Returns
    -------
    dict of str to list
        One value per point: strings from CSV and TSV, else of the type in the file. A field that an object of JSON
        lines does not have is None.

    Raises
    ------
    DataError
        If the file has no such column, is of another format, or cannot be read.
    """
    suffix = files.suffixes(path)[0]
    if suffix in (".jsonl", ".json"):
        return _from_objects(path, columns)
    if suffix not in (*_DELIMITERS, ".parquet"):
        raise DataError("has no columns; they can be kept from CSV, TSV, Parquet and JSON lines", path=path)
    chosen = Reading() if reading is None else reading
    with tables.arrow_errors(path), files.reading(path) as stream:
        if suffix == ".parquet":
            file = pa.parquet.ParquetFile(stream, read_dictionary=texts_stored_once(stream))
            check_columns(path, file.schema_arrow.names, columns)
            return _in_pieces(file, columns, Volume(path, os.path.getsize(path)))
        decoded = as_utf8(stream, chosen.encoding, path)
        dialect, names = tables.csv_dialect(decoded, path, chosen, _DELIMITERS[suffix])
        check_columns(path, names, columns)
        with files.reading(path) as again:
            found = tables.open_csv(as_utf8(again, chosen.encoding, path), dialect, columns).read_all()
    return {column: found[column].to_pylist() for column in columns}


def _in_pieces(file: pa.parquet.ParquetFile, columns: Sequence[str], volume: Volume) -> dict[str, list[Any]]:
    values: dict[str, list[Any]] = {column: [] for column in columns}
    for batch in file.iter_batches(columns=list(columns), use_threads=False):
        for piece in volume.pieces(batch):
            for column in columns:
                values[column] += piece[column].to_pylist()
    return values


def check_columns(path: PathLike, found: Sequence[str], columns: Sequence[str]) -> None:
    """Raise DataError unless each of the columns is in the file once."""
    for column in columns:
        if list(found).count(column) != 1:
            problem = f"no column {column!r}" if column not in found else f"column {column!r} occurs more than once"
            raise DataError(f"{problem}; columns are {plain(', '.join(found), 500)}", path=path)


def _from_objects(path: PathLike, columns: Sequence[str]) -> dict[str, list[Any]]:
    values: dict[str, list[Any]] = {column: [] for column in columns}
    fields: dict[str, None] = {}
    for _, entry in read_objects(path):
        fields |= dict.fromkeys(entry)
        for column in columns:
            values[column].append(entry.get(column))
    check_columns(path, list(fields), columns)
    return values
