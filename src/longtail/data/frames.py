"""Tables in memory (pandas, polars, pyarrow, Hugging Face) and Hugging Face datasets on disk."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.ipc

from longtail.data.dataset import Dataset
from longtail.data.reading import FieldPath, Reading
from longtail.data.records import RecordCollector
from longtail.data.shards import SPLITS
from longtail.data.tables import arrow_errors, collect_batches, columns_to_read
from longtail.data.volume import Volume
from longtail.errors import DataError, first_line

_ROWS = 4096
_STATE = "state.json"


def read_frame(source: Any, reading: Reading, *, label_names: Sequence[str] | None = None) -> Dataset:
    """Read a table in memory.

    Parameters
    ----------
    source : DataFrame, pyarrow table, Hugging Face dataset or list of dict
        Table with named columns.
    reading : Reading
        Which columns to read.
    label_names : sequence of str, optional
        Label ids follow this list.

    Returns
    -------
    Dataset

    Raises
    ------
    DataError
        If a column is missing or holds something else.
    """
    module = type(source).__module__.partition(".")[0]
    if module == "datasets":
        return _from_hugging_face(source, reading, label_names)
    if module == "pandas":
        with arrow_errors(None):
            return _from_pandas(source, reading, label_names)
    if hasattr(source, "__arrow_c_stream__"):  # pyarrow, polars and others
        with arrow_errors(None):
            table = pa.RecordBatchReader.from_stream(source).read_all()
            chosen = table.select(columns_to_read(None, table.column_names, reading))
            return collect_batches(None, chosen.to_batches(), reading, label_names)
    if isinstance(source, Iterable) and not isinstance(source, (bytes, Mapping)):
        return _from_records(source, reading, label_names)
    raise DataError(
        f"a dataset cannot be read from {type(source).__name__}; give a path, a DataFrame, a pyarrow table, a Hugging "
        "Face dataset or a list of dicts"
    )


def _from_records(source: Iterable[Any], reading: Reading, label_names: Sequence[str] | None) -> Dataset:
    def complain(row: int, field: str, message: str) -> DataError:
        return DataError(f"record {row}: {message}", field=field)

    collector = RecordCollector(reading, complain, label_names=label_names)
    for row, record in enumerate(source, start=1):
        if not isinstance(record, Mapping):
            raise DataError(f"record {row} is {type(record).__name__}, but must be a dict")
        collector.add(record, row)
    if collector.n_points == 0:
        raise DataError("there are no records")
    return collector.finish()


def _from_pandas(source: Any, reading: Reading, label_names: Sequence[str] | None) -> Dataset:
    if not hasattr(source, "columns"):
        raise DataError("a Series has no columns; give a DataFrame")
    if reading.ids is not None and reading.ids == source.index.name:
        source = source.reset_index()
    chosen = source[columns_to_read(None, list(source.columns), reading)]
    return collect_batches(None, pa.Table.from_pandas(chosen, preserve_index=False).to_batches(), reading, label_names)


def _from_hugging_face(source: Any, reading: Reading, label_names: Sequence[str] | None) -> Dataset:
    if isinstance(source, Mapping):
        raise DataError(f"has the splits {', '.join(map(str, source))}; choose one, e.g. data[{next(iter(source))!r}]")
    names = source.column_names
    if names is None:
        raise DataError("a dataset whose columns are unknown cannot be read; give its features, or a list of dicts")
    chosen = source.select_columns(columns_to_read(None, list(names), reading)).with_format("arrow")
    meaning = _class_names(source.features.arrow_schema.metadata if source.features else None, reading)
    batches = (batch for table in chosen.iter(batch_size=_ROWS) for batch in _named(table.to_batches(), meaning))
    with arrow_errors(None):
        return collect_batches(None, batches, reading, label_names)


def read_saved_frame(folder: Path, reading: Reading, *, label_names: Sequence[str] | None = None) -> Dataset:
    """Read a folder that `save_to_disk` of a Hugging Face dataset wrote; the package itself is not needed."""
    if (folder / SPLITS).is_file():
        splits = _json(folder / SPLITS, "splits")
        one = folder / str(next(iter(splits), "train"))
        raise DataError(f"has the splits {', '.join(map(str, splits))}; give one of them, e.g. {one}", path=folder)
    entries = _json(folder / _STATE, "_data_files")
    names = [str(entry.get("filename") if isinstance(entry, dict) else "") for entry in entries]
    if not names or any(Path(name).name != name for name in names):
        raise DataError(f"{_STATE} names no data files in this folder", path=folder)
    with arrow_errors(folder):
        volume = Volume(folder, sum((folder / name).stat().st_size for name in names if (folder / name).is_file()))
        return collect_batches(folder, _saved_batches(folder, names, reading), reading, label_names, volume)


def _saved_batches(folder: Path, names: Sequence[str], reading: Reading) -> Iterator[pa.RecordBatch]:
    for name in names:
        try:
            # Not mapped into memory: a file that shrinks meanwhile would kill the process.
            with pa.OSFile(str(folder / name)) as file, pa.ipc.open_stream(file) as stream:
                columns = columns_to_read(folder, stream.schema.names, reading)
                meaning = _class_names(stream.schema.metadata, reading)
                for batch in stream:
                    chosen = batch.select(columns)
                    chosen.validate(full=True)  # Arrow does not check the offsets in a file and reads where they point
                    yield from _named([chosen], meaning)
        except pa.ArrowMemoryError as error:
            raise DataError(f"{name} is damaged, or has a batch of rows too large for memory", path=folder) from error
        except OSError as error:
            said = f"{name} cannot be read ({error.strerror or str(error).splitlines()[0]})"
            raise DataError(said, path=folder) from error


def _json(file: Path, field: str) -> list[Any]:
    try:
        value = json.loads(file.read_bytes())[field]
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise DataError(f"is damaged, or was not written by save_to_disk ({first_line(error)})", path=file) from error
    if not isinstance(value, list):
        raise DataError("must be a list", path=file, field=field)
    return value


def _class_names(metadata: Mapping[bytes, bytes] | None, reading: Reading) -> tuple[str, list[str]] | None:
    """Return the column of the labels and their names, if a Hugging Face schema has names for its numbers."""
    if not metadata or reading.labels is None:
        return None
    try:
        features = json.loads(metadata[b"huggingface"])["info"]["features"]
        column = FieldPath(reading.labels).column(features)
        feature = features[column]
        while isinstance(feature, Mapping) and "feature" in feature:
            feature = feature["feature"]
        if feature["_type"] != "ClassLabel" or not all(isinstance(name, str) for name in feature["names"]):
            return None
        return column, feature["names"]
    except (ValueError, KeyError, TypeError, IndexError):
        return None


def _named(batches: Sequence[pa.RecordBatch], meaning: tuple[str, list[str]] | None) -> Iterator[pa.RecordBatch]:
    """Yield batches whose labels are lists of names instead of class numbers."""
    for batch in batches:
        if meaning is None:
            yield batch
            continue
        column, names = meaning
        rows = []
        for value in batch.column(column).to_pylist():
            numbers = value if isinstance(value, list) else [value]
            known = [number for number in numbers if number is not None and number != -1]  # -1: not labelled
            if not all(isinstance(number, int) and 0 <= number < len(names) for number in known):
                said = f"a class number in {known} is out of range; there are {len(names)} names"
                raise DataError(said, field=column)
            rows.append([names[number] for number in known])
        position = batch.schema.get_field_index(column)
        yield batch.set_column(position, column, pa.array(rows, pa.large_list(pa.large_string())))
