"""JSON: one object per line, or one array of objects, with a text and labels; other fields are ignored."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO

from longtail.core.inputs import PathLike
from longtail.data import files
from longtail.data.dataset import Dataset
from longtail.data.encodings import as_utf8, not_utf8
from longtail.data.limits import FIELDS
from longtail.data.reading import Reading
from longtail.data.records import RecordCollector, kind
from longtail.errors import DataError, first_line

_PLAIN = Reading()


def read_jsonl(path: PathLike, reading: Reading = _PLAIN, *, label_names: Sequence[str] | None = None) -> Dataset:
    """Read texts and labels from JSON lines or a JSON array.

    Labels are strings or whole numbers; a label that occurs twice in an object counts once.

    Parameters
    ----------
    path : str or path-like
        File.
    reading : Reading, default Reading()
        Which fields to read.
    label_names : sequence of str, optional
        Label ids follow this list.

    Returns
    -------
    Dataset
    """

    def complain(line: int, field: str, message: str) -> DataError:
        return DataError(message, path=path, line=line, field=field)

    collector = RecordCollector(reading, complain, label_names=label_names)
    for line, entry in read_objects(path, encoding=reading.encoding):
        collector.add(entry, line)
    if collector.n_points == 0:
        raise DataError("the file is empty", path=path)
    return collector.finish()


def read_objects(path: PathLike, *, encoding: str | None = None) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield line number and JSON object of each line that is not blank, reading one line at a time.

    A file that begins with a bracket is an array of objects, which are numbered from 1.
    """
    with files.reading(path) as stream:
        stream = as_utf8(stream, encoding, path)
        if stream.peek(64).removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"["):  # type: ignore[attr-defined]
            yield from _array(stream, path)
            return
        for line, content in enumerate(files.lines(stream, path), start=1):
            if content.isspace():
                continue
            try:
                # Windows programs write a byte order mark before the first line.
                entry = json.loads(content.decode("utf-8-sig" if line == 1 else "utf-8").rstrip())
            except UnicodeDecodeError as error:
                raise not_utf8(content, path, line, f"{error.reason} at byte {error.start}") from error
            except json.JSONDecodeError as error:  # its own message counts lines within this line
                if b"\0" in content:
                    raise not_utf8(content, path, line, "a zero byte") from error
                said = f"is not a JSON object ({error.msg.removesuffix(' at')} at column {error.colno})"
                raise DataError(said, path=path, line=line) from error
            except RecursionError as error:
                raise DataError("is not a JSON object: it is nested too deeply", path=path, line=line) from error
            except ValueError as error:
                raise DataError(f"is not a JSON object ({first_line(error)})", path=path, line=line) from error
            if not isinstance(entry, dict):
                raise DataError(f"must be a JSON object, not {kind(entry)}", path=path, line=line)
            FIELDS.check(len(entry), "fields", path=path, line=line)
            yield line, entry


def _array(stream: BinaryIO, path: PathLike) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield number and object of each entry of a JSON array."""
    content = stream.read()
    try:
        entries = json.loads(content.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise not_utf8(content, path, line, f"{error.reason} at byte {error.start}") from error
    except json.JSONDecodeError as error:
        said = f"is not a JSON array ({error.msg.removesuffix(' at')} at column {error.colno})"
        raise DataError(said, path=path, line=error.lineno) from error
    except (ValueError, RecursionError) as error:
        raise DataError(f"is not a JSON array ({first_line(error)})", path=path) from error
    for number, entry in enumerate(entries, start=1):
        if not isinstance(entry, dict):
            raise DataError(f"entry {number} must be a JSON object, not {kind(entry)}", path=path)
        yield number, entry


def write_jsonl(dataset: Dataset, path: PathLike, *, overwrite: bool = False) -> None:
    """Write texts and labels, labels by name if they have names; features and unused labels are not written."""
    if dataset.texts is None:
        raise DataError("JSON lines need texts, but this dataset has only features; write .txt, .npz or a directory")
    with files.writing(path, overwrite=overwrite) as stream:
        for text, labels in zip(dataset.texts, point_labels(dataset), strict=True):
            stream.write(json.dumps({"text": text, "labels": labels}, ensure_ascii=False).encode() + b"\n")


def point_labels(dataset: Dataset) -> Iterator[list[Any]]:
    """Yield the labels of each point, by name if they have names."""
    Y, names = dataset.Y, dataset.label_names
    for row in range(dataset.n_points):
        ids = Y.indices[Y.indptr[row] : Y.indptr[row + 1]].tolist()
        yield ids if names is None else [names[i] for i in ids]
