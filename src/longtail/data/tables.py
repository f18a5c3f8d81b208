"""CSV, TSV and Parquet tables with a text column and a label column, read and written in batches by pyarrow."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from longtail.core.inputs import PathLike
from longtail.data import files
from longtail.data.dataset import Dataset
from longtail.data.jsonl import point_labels, text_fields
from longtail.data.labels import SEPARATOR, LabelCollector
from longtail.data.limits import FIELDS, shortened
from longtail.data.texts import Texts, TextsBuilder
from longtail.errors import DataError, LongtailError, first_line

logger = logging.getLogger(__name__)


_SEPARATORS = (",", "|", "\t", ";")  # common ones, for the hint that `separator` may be wrong
_BLOCK_BYTES = 16 << 20  # a CSV row must fit into one block
_ROWS = 4096


def read_csv(
    path: PathLike,
    *,
    delimiter: str = ",",
    label_names: Sequence[str] | None = None,
    text_field: str = "text",
    labels_field: str | None = "labels",
    separator: str = SEPARATOR,
) -> Dataset:
    """Read a CSV or TSV file whose first row names the columns; parameters as in `read_dataset`."""
    with _arrow_errors(path):
        # Read the column names first: for a missing column, pyarrow does not say which columns there are.
        with files.reading(path) as stream:
            if not stream.peek(1):  # type: ignore[attr-defined]
                raise DataError("the file is empty", path=path)
            columns = _columns(path, _open_csv(stream, delimiter).schema.names, text_field, labels_field)
        with files.reading(path) as stream:
            batches = _open_csv(stream, delimiter, columns)
            return _collect(path, batches, columns, labels_field is not None, label_names, separator)


def _open_csv(stream: Any, delimiter: str, columns: list[str] | None = None) -> Any:
    convert = pa.csv.ConvertOptions(strings_can_be_null=False)
    if columns is not None:
        convert.include_columns = columns
        convert.column_types = dict.fromkeys(columns, pa.large_string())
    return pa.csv.open_csv(
        stream,
        read_options=pa.csv.ReadOptions(block_size=_BLOCK_BYTES, use_threads=False),
        parse_options=pa.csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
        convert_options=convert,
    )


def read_parquet(
    path: PathLike,
    *,
    label_names: Sequence[str] | None = None,
    text_field: str = "text",
    labels_field: str | None = "labels",
    separator: str = SEPARATOR,
) -> Dataset:
    """Read a Parquet file whose labels are lists, or strings split at `separator`; parameters as in `read_dataset`."""
    with _arrow_errors(path), files.reading(path) as stream:
        file = pa.parquet.ParquetFile(stream)
        columns = _columns(path, file.schema_arrow.names, text_field, labels_field)
        batches = file.iter_batches(batch_size=_ROWS, columns=columns, use_threads=False)
        return _collect(path, batches, columns, labels_field is not None, label_names, separator)


@contextmanager
def _arrow_errors(path: PathLike) -> Iterator[None]:
    try:
        yield
    except (LongtailError, OSError, MemoryError):
        raise
    except UnicodeDecodeError as error:  # pyarrow checks the cells of CSV files, but neither Parquet's nor column names
        raise DataError(f"a cell or the name of a column is not UTF-8 ({error.reason})", path=path) from error
    except Exception as error:  # Arrow's own, and what its values raise when they become Python's: dates out of range
        raise DataError(f"cannot be read as a table ({first_line(error)})", path=path) from error


def _columns(path: PathLike, found: list[str], text_field: str, labels_field: str | None) -> list[str]:
    """Return the columns to read, those of the text first; each must be there once."""
    FIELDS.check(len(found), "columns", path=path)
    texts = text_fields(text_field, found)
    labels = [] if labels_field is None else [labels_field]
    for columns, option in ((texts, "text"), (labels, "labels")):
        for column in columns:
            if found.count(column) != 1:
                problem = f"no column {column!r}" if column not in found else f"column {column!r} occurs more than once"
                said = f"{problem}; columns are {shortened(found)} (use {option}_field, --{option}-field)"
                raise DataError(said, path=path)
    return texts + labels


def _collect(
    path: PathLike, batches: Any, columns: list[str], labelled: bool, label_names: Sequence[str] | None, separator: str
) -> Dataset:
    n_texts = len(columns) - labelled
    texts, labels = TextsBuilder(), LabelCollector(label_names)
    row = 0
    for batch in batches:
        pairs = zip(*(batch.column(column) for column in columns), strict=True)
        for values in pairs:
            row += 1
            parts = [value.as_py() for value in values[:n_texts]]
            for column, part in zip(columns, parts, strict=False):
                if not isinstance(part, str):
                    raise DataError(f"row {row}: must be a string, not {part!r:.40}", path=path, field=column)
            texts.append(" ".join(parts))
            names = _split(values[-1].as_py(), separator) if labelled else []
            if names is None:
                said = f"row {row}: must be a list of labels, or labels separated by {separator!r}"
                raise DataError(said, path=path, field=columns[-1])
            labels.add_point(names)
    if row == 0:
        raise DataError("the table has no rows", path=path)
    Y, found = labels.finish()
    _hint_at_separator(path, Y, found, separator)
    return Dataset(Y=Y, texts=Texts(*texts.arrays()), label_names=found)


def _hint_at_separator(path: PathLike, Y: Any, names: Sequence[str] | None, separator: str) -> None:
    """Warn if no cell was split and most labels contain another common separator."""
    if not names or int(Y.getnnz(axis=1).max()) > 1:
        return
    for other in _SEPARATORS:
        if other != separator and sum(other in name for name in names) > len(names) / 2:
            logger.warning(
                "%s: no row has more than one label, and most labels contain %r, e.g. %r; if it separates labels, "
                "use separator=%r (--separator)", os.fspath(path), other, names[0], other,
            )  # fmt: skip
            return


def _split(value: Any, separator: str) -> list[str] | None:
    """Return the labels of a cell, or None if it contains something else. A null cell has no labels."""
    if value is None:
        return []
    if isinstance(value, str):
        return [name for name in (part.strip() for part in value.split(separator)) if name]
    if not isinstance(value, list):
        return None
    if any(isinstance(item, bool) or not isinstance(item, (str, int)) or item == "" for item in value):
        return None
    return [str(item) for item in value]


def write_csv(dataset: Dataset, path: PathLike, *, delimiter: str = ",", overwrite: bool = False) -> None:
    """Write the columns `text` and `labels`, all values quoted, labels separated by `;`."""
    for name in dataset.label_names or ():
        if SEPARATOR in name or name.strip() != name or not name:
            raise DataError(
                f"the label {name!r} cannot be written to CSV: it is empty, contains {SEPARATOR!r} or has outer spaces"
            )
    schema = pa.schema([("text", pa.large_string()), ("labels", pa.large_string())])
    options = pa.csv.WriteOptions(delimiter=delimiter, quoting_style="all_valid")
    batches = _batches(dataset, schema, lambda labels: SEPARATOR.join(map(str, labels)))
    with (
        files.writing(path, overwrite=overwrite) as stream,
        pa.csv.CSVWriter(stream, schema, write_options=options) as writer,
    ):
        for batch in batches:
            writer.write_batch(batch)


def write_parquet(dataset: Dataset, path: PathLike, *, overwrite: bool = False) -> None:
    """Write the columns `text` and `labels` (a list of strings)."""
    schema = pa.schema([("text", pa.large_string()), ("labels", pa.large_list(pa.large_string()))])
    batches = _batches(dataset, schema, lambda labels: [str(label) for label in labels])
    with (
        files.writing(path, overwrite=overwrite) as stream,
        pa.parquet.ParquetWriter(stream, schema, compression="zstd") as writer,
    ):
        for batch in batches:
            writer.write_batch(batch)


def _batches(dataset: Dataset, schema: pa.Schema, as_cell: Any) -> Iterator[pa.RecordBatch]:
    if dataset.texts is None:
        raise DataError("tables need texts, but this dataset has only features; write .txt, .npz or a directory")
    points = zip(dataset.texts, point_labels(dataset), strict=True)
    while rows := list(islice(points, _ROWS)):
        cells = [[text for text, _ in rows], [as_cell(labels) for _, labels in rows]]
        yield pa.record_batch([pa.array(c, f.type) for c, f in zip(cells, schema, strict=True)], schema=schema)
