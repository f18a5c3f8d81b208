"""CSV, TSV and Parquet tables with a text column and a label column, read and written in batches by pyarrow."""

from __future__ import annotations

import codecs
import logging
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from longtail.core.inputs import PathLike
from longtail.data import files
from longtail.data.dataset import Dataset
from longtail.data.dialects import SAMPLE_BYTES, Dialect, find_dialect, first_row
from longtail.data.encodings import as_utf8, not_utf8, refuse_other_encodings
from longtail.data.jsonl import point_labels
from longtail.data.labels import SEPARATOR
from longtail.data.limits import FIELDS, shortened
from longtail.data.reading import Reading
from longtail.data.records import RecordCollector, option_of
from longtail.data.volume import Volume, texts_stored_once
from longtail.errors import DataError, LongtailError, first_line

logger = logging.getLogger(__name__)


_SEPARATORS = (",", "|", "\t", ";")  # common ones, for the hint that `separator` may be wrong
_BLOCK_BYTES = 16 << 20  # a CSV row must fit into one block
_ROWS = 4096
_PLAIN = Reading()


def read_csv(
    path: PathLike, reading: Reading = _PLAIN, *, usual: str = ",", label_names: Sequence[str] | None = None
) -> Dataset:
    """Read a CSV or TSV file whose first row names the columns.

    Parameters
    ----------
    path : str or path-like
        File.
    reading : Reading, default Reading()
        Which columns to read; delimiter and encoding if they are known.
    usual : str, default ","
        Delimiter that wins where the first rows fit several.
    label_names : sequence of str, optional
        Label ids follow this list.

    Returns
    -------
    Dataset
    """
    try:
        with arrow_errors(path):
            # Read the column names first: for a missing column, pyarrow does not say which columns there are.
            with files.reading(path) as stream:
                dialect, found = csv_dialect(as_utf8(stream, reading.encoding, path), path, reading, usual)
            logger.info("%s: cells are separated by %r; columns are %s", path, dialect.delimiter, shortened(found))
            columns = columns_to_read(path, found, reading)
            with files.reading(path) as stream:
                batches = open_csv(as_utf8(stream, reading.encoding, path), dialect, columns)
                return collect_batches(path, batches, reading, label_names)
    except DataError as error:
        if reading.encoding is None and isinstance(error.__cause__, (pa.ArrowInvalid, UnicodeDecodeError)):
            refuse_other_encodings(path)
        raise


def csv_dialect(stream: BinaryIO, path: PathLike, reading: Reading, usual: str) -> tuple[Dialect, list[str]]:
    """Return the dialect of a CSV file, found in its first rows, and the names of its columns."""
    sample = stream.read(SAMPLE_BYTES)
    if not sample:
        raise DataError("the file is empty", path=path)
    if b"\0" in sample:
        raise not_utf8(sample, path, reason="zero bytes")
    cut = len(sample) == SAMPLE_BYTES
    try:
        text = codecs.getincrementaldecoder("utf-8-sig")().decode(sample, final=not cut)
    except UnicodeDecodeError as error:
        line = sample.count(b"\n", 0, error.start) + 1
        raise not_utf8(sample, path, line, f"{error.reason} at byte {error.start}") from error
    wanted = [reading.text] if isinstance(reading.text, str) else []
    wanted += [part for _, field in reading.paths() for part in dict.fromkeys((field.name, field.column(())))]
    dialect = find_dialect(text, set(wanted), cut=cut, delimiter=reading.delimiter, usual=usual)
    return dialect, first_row(text, dialect)


def open_csv(stream: Any, dialect: Dialect, columns: Sequence[str]) -> Any:
    """Open a CSV stream in UTF-8; gives batches of the columns, as strings."""
    convert = pa.csv.ConvertOptions(
        strings_can_be_null=False, include_columns=list(columns), column_types=dict.fromkeys(columns, pa.large_string())
    )
    return pa.csv.open_csv(
        stream,
        read_options=pa.csv.ReadOptions(block_size=_BLOCK_BYTES, use_threads=False, skip_rows=dialect.skipped),
        parse_options=pa.csv.ParseOptions(
            delimiter=dialect.delimiter, quote_char=dialect.quote, double_quote=dialect.escape is None,
            escape_char=dialect.escape or False, newlines_in_values=True,
        ),
        convert_options=convert,
    )  # fmt: skip


def read_parquet(path: PathLike, reading: Reading = _PLAIN, *, label_names: Sequence[str] | None = None) -> Dataset:
    """Read a Parquet file whose labels are lists, or strings split at the separator.

    Parameters
    ----------
    path : str or path-like
        File.
    reading : Reading, default Reading()
        Which columns to read.
    label_names : sequence of str, optional
        Label ids follow this list.

    Returns
    -------
    Dataset
    """
    with arrow_errors(path), files.reading(path) as stream:
        # Not decoded yet, a text that repeats is in memory once; `Volume` looks at its length times its rows.
        file = pa.parquet.ParquetFile(stream, read_dictionary=texts_stored_once(stream))
        columns = columns_to_read(path, file.schema_arrow.names, reading)
        batches = file.iter_batches(batch_size=_ROWS, columns=columns, use_threads=False)
        return collect_batches(path, batches, reading, label_names, Volume(path, os.path.getsize(path)))


@contextmanager
def arrow_errors(path: PathLike | None) -> Iterator[None]:
    """Raise the errors of pyarrow as DataError."""
    try:
        yield
    except (LongtailError, OSError, MemoryError):
        raise
    except UnicodeDecodeError as error:  # pyarrow checks the cells of CSV files, but neither Parquet's nor column names
        raise DataError(f"a cell or the name of a column is not UTF-8 ({error.reason})", path=path) from error
    except Exception as error:  # Arrow's own, and what its values raise when they become Python's: dates out of range
        raise DataError(f"cannot be read as a table ({first_line(error)})", path=path) from error


def columns_to_read(path: PathLike | None, found: list[str], reading: Reading) -> list[str]:
    """Return the columns to read; each must be there once."""
    FIELDS.check(len(found), "columns", path=path)
    columns: list[str] = []
    for option, field in reading.paths(found):
        column = field.column(found)
        if found.count(column) != 1:
            problem = f"no column {column!r}" if column not in found else f"column {column!r} occurs more than once"
            more = "; several are separated by commas" if option == "text" and "+" in column else ""
            if len(found) == 1 and re.search(r"\W", found[0]):
                more += "; or is the delimiter another one? use --delimiter"
            said = f"{problem}; columns are {shortened(found)} ({option_of(option)}{more})"
            raise DataError(said, path=path, missing=True)
        columns.append(column)
    return list(dict.fromkeys(columns))


def collect_batches(
    path: PathLike | None,
    batches: Any,
    reading: Reading,
    label_names: Sequence[str] | None,
    volume: Volume | None = None,
) -> Dataset:
    """Return the dataset in the rows of record batches, unless they are more than `volume` allows."""

    def complain(row: int, field: str, message: str) -> DataError:
        return DataError(f"row {row}: {message}", path=path, field=field)

    collector = RecordCollector(reading, complain, label_names=label_names, cells=True)
    for batch in batches:
        # Row by row in small pieces: the Python objects of a whole batch would need several times its memory.
        for piece in _pieces(batch) if volume is None else volume.pieces(batch):
            for record in piece.to_pylist():
                collector.add(record, collector.n_points + 1)
    if collector.n_points == 0:
        raise DataError("the table has no rows", path=path)
    dataset = collector.finish()
    _hint_at_separator(path, dataset.Y, dataset.label_names, reading.separator)
    return dataset


def _pieces(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    for start in range(0, batch.num_rows, _ROWS):
        yield batch.slice(start, _ROWS)


def _hint_at_separator(path: PathLike | None, Y: Any, names: Sequence[str] | None, separator: str) -> None:
    """Warn if no cell was split and most labels contain another common separator."""
    if not names or int(Y.getnnz(axis=1).max()) > 1:
        return
    for other in _SEPARATORS:
        if other != separator and sum(other in name for name in names) > len(names) / 2:
            shown = "the table" if path is None else os.fspath(path)
            logger.warning(
                "%s: no row has more than one label, and most labels contain %r, e.g. %r; if it separates labels, "
                "use separator=%r (--separator)", shown, other, names[0], other,
            )  # fmt: skip
            return


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
