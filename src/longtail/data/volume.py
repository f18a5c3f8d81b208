"""How many bytes the rows of an Arrow table become. A file stores a repeated value once; as rows it is there each time.

A Parquet file of 500 bytes can contain 3 GB of texts that way, so rows are counted before they become Python objects.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet

from longtail.core.inputs import PathLike
from longtail.data.limits import grown_too_large, largest_content
from longtail.errors import DataError

_PER_VALUE = 8  # bytes that even an empty value takes
_PIECE = 1 << 24  # bytes of rows that become Python objects at a time
_TEXTS = (
    pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view,
    pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view,
)  # fmt: skip


class Volume:
    """Counts the bytes of rows, and raises DataError where they are more than a file of this size may contain.

    Parameters
    ----------
    path : path
        The file, for messages.
    n_bytes : int
        Its size.
    """

    def __init__(self, path: PathLike, n_bytes: int) -> None:
        self.path = path
        self._left = largest_content(n_bytes)

    def pieces(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Count a batch, and yield its rows in pieces that may become Python objects, without dictionaries."""
        try:
            size = sum(row_bytes(column) for column in batch.columns)
        except DataError as error:
            raise DataError(error.message, path=self.path) from error
        self._left -= size
        if self._left < 0:
            raise grown_too_large(self.path)
        n_rows = max(1, batch.num_rows * _PIECE // max(size, _PIECE))
        plain = pa.schema([(field.name, _plain(field.type)) for field in batch.schema])
        for start in range(0, batch.num_rows, n_rows):
            piece = batch.slice(start, n_rows)
            yield piece if plain.equals(piece.schema) else piece.cast(plain)


def row_bytes(array: Any) -> int:
    """Return how many bytes the values of an array take when each is stored on its own.

    Raises
    ------
    DataError
        For types whose values overlap or repeat in ways that no program writes for texts and labels.
    """
    kind = array.type
    if isinstance(kind, pa.BaseExtensionType):
        return row_bytes(array.storage)
    own = _PER_VALUE * len(array)
    if pa.types.is_dictionary(kind):
        lengths = _lengths(array.dictionary)
        return own + int(pa.compute.sum(lengths.take(array.indices)).as_py() or 0)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return own + row_bytes(array.flatten())
    if pa.types.is_map(kind):
        return own + row_bytes(array.keys) + row_bytes(array.items)
    if pa.types.is_struct(kind):
        return own + sum(row_bytes(part) for part in array.flatten())
    if pa.types.is_nested(kind) or pa.types.is_run_end_encoded(kind):
        raise DataError(f"columns of the type {kind} are not read; use strings, or lists of strings")
    return own + int(pa.compute.sum(_lengths(array)).as_py() or 0)


def _lengths(values: Any) -> Any:
    """Return the bytes of each value; of a list in a dictionary, the bytes of all of them."""
    kind = values.type
    if pa.types.is_nested(kind) or pa.types.is_dictionary(kind):
        return pa.repeat(pa.scalar(row_bytes(values), pa.int64()), len(values))
    if any(is_text(kind) for is_text in _TEXTS):
        return pa.compute.binary_length(values).cast(pa.int64())
    return pa.repeat(pa.scalar(_PER_VALUE, pa.int64()), len(values))


def _plain(kind: pa.DataType) -> pa.DataType:
    """Return a type without dictionaries, whose values become Python's several times as fast."""
    if pa.types.is_dictionary(kind):
        return kind.value_type
    if pa.types.is_list(kind):
        return pa.list_(_plain(kind.value_type))
    if pa.types.is_large_list(kind):
        return pa.large_list(_plain(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([(field.name, _plain(field.type)) for field in kind])
    return kind


def texts_stored_once(stream: Any) -> list[str]:
    """Return the columns of a Parquet file in which a text that repeats may be stored once, to be read like that.

    Only the schema is asked: pyarrow ends the process if the metadata of a row group is damaged and asked for.
    """
    schema = pa.parquet.ParquetFile(stream).schema
    leaves = [schema.column(i) for i in range(len(schema))]
    return sorted({leaf.path for leaf in leaves if leaf.physical_type == "BYTE_ARRAY"})
