"""CSV, TSV and Parquet tables with a text column and a labels column, read and written in batches by pyarrow."""

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

from longtail.data import files
from longtail.data.dataset import Dataset
from longtail.data.jsonl import point_labels, text_fields
from longtail.data.labels import LabelCollector
from longtail.data.texts import Texts, TextsBuilder
from longtail.errors import DataError

logger = logging.getLogger(__name__)

Path = str | os.PathLike[str]

SEPARATOR = ";"
_SEPARATORS = (",", "|", "\t", ";")  # that tables have between labels
_BLOCK_BYTES = 16 << 20  # a CSV row must fit into a block
_ROWS = 4096


def read_csv(
    path: Path,
    *,
    delimiter: str = ",",
    label_names: Sequence[str] | None = None,
    text_field: str = "text",
    labels_field: str | None = "labels",
    separator: str = SEPARATOR,
) -> Dataset:
    """Texts and labels of a table whose first row names its columns; the labels of a row are split at `separator`."""
    with _arrow_errors(path):
        # The names are read first: asked for a column that is not there, pyarrow does not say which ones there are.
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
    path: Path,
    *,
    label_names: Sequence[str] | None = None,
    text_field: str = "text",
    labels_field: str | None = "labels",
    separator: str = SEPARATOR,
) -> Dataset:
    """Texts and labels of a Parquet file; labels are a list column, or strings that are split at `separator`."""
    with _arrow_errors(path), files.reading(path) as stream:
        file = pa.parquet.ParquetFile(stream)
        columns = _columns(path, file.schema_arrow.names, text_field, labels_field)
        batches = file.iter_batches(batch_size=_ROWS, columns=columns, use_threads=False)
        return _collect(path, batches, columns, labels_field is not None, label_names, separator)


@contextmanager
def _arrow_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except UnicodeDecodeError as error:  # pyarrow checks the cells, but not the names of the columns
        raise DataError(f"the names of the columns are not UTF-8 ({error.reason})", path=path) from error
    except pa.ArrowException as error:
        raise DataError(f"cannot be read as a table ({str(error).splitlines()[0]})", path=path) from error


def _columns(path: Path, found: list[str], text_field: str, labels_field: str | None) -> list[str]:
    """Return the columns to read, those of the text first; each must be there once."""
    wanted = text_fields(text_field, found) + ([] if labels_field is None else [labels_field])
    for column in wanted:
        if found.count(column) != 1:
            problem = "is missing" if column not in found else "occurs more than once"
            raise DataError(
                f"the column {problem}; the columns: {', '.join(map(repr, found))}", path=path, field=column
            )
    return wanted


def _collect(
    path: Path, batches: Any, columns: list[str], labelled: bool, label_names: Sequence[str] | None, separator: str
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
                    raise DataError(f"row {row}: must be a text, not {part!r:.40}", path=path, field=column)
            texts.append(" ".join(parts))
            names = _split(values[-1].as_py(), separator) if labelled else []
            if names is None:
                said = f"row {row}: must be a list of labels, or labels with {separator!r} between them"
                raise DataError(said, path=path, field=columns[-1])
            labels.add_point(names)
    if row == 0:
        raise DataError("the table has no rows", path=path)
    Y, found = labels.finish()
    _hint_at_separator(path, Y, found, separator)
    return Dataset(Y=Y, texts=Texts(*texts.arrays()), label_names=found)


def _hint_at_separator(path: Path, Y: Any, names: Sequence[str] | None, separator: str) -> None:
    """Where no cell was split and most labels hold what others put between labels, it is said."""
    if not names or int(Y.getnnz(axis=1).max()) > 1:
        return
    for other in _SEPARATORS:
        if other != separator and sum(other in name for name in names) > len(names) / 2:
            logger.warning(
                "%s: no row has more than one label, and most labels hold %r, e.g. %r; if it stands between labels, "
                "say so (separator=%r, --separator)", os.fspath(path), other, names[0], other,
            )  # fmt: skip
            return


def _split(value: Any, separator: str) -> list[str] | None:
    """The labels of a cell; None where it holds something else. A cell without a value has no labels."""
    if value is None:
        return []
    if isinstance(value, str):
        return [name for name in (part.strip() for part in value.split(separator)) if name]
    if not isinstance(value, list):
        return None
    if any(isinstance(item, bool) or not isinstance(item, (str, int)) or item == "" for item in value):
        return None
    return [str(item) for item in value]


def write_csv(dataset: Dataset, path: Path, *, delimiter: str = ",", overwrite: bool = False) -> None:
    """Write the columns `text` and `labels`, every value in quotes, labels with `;` between them."""
    for name in dataset.label_names or ():
        if SEPARATOR in name or name.strip() != name or not name:
            raise DataError(
                f"the label {name!r} cannot be written to CSV: it is empty, or has {SEPARATOR!r} or outer spaces"
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


def write_parquet(dataset: Dataset, path: Path, *, overwrite: bool = False) -> None:
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
        raise DataError("a table holds texts, and this dataset has only features; write it as .txt, .npz or a folder")
    points = zip(dataset.texts, point_labels(dataset), strict=True)
    while rows := list(islice(points, _ROWS)):
        cells = [[text for text, _ in rows], [as_cell(labels) for _, labels in rows]]
        yield pa.record_batch([pa.array(c, f.type) for c, f in zip(cells, schema, strict=True)], schema=schema)
