"""JSON lines: one object per line with a text and a list of labels; other fields are ignored."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from typing import Any

from longtail.core.inputs import PathLike
from longtail.data import files
from longtail.data.dataset import Dataset
from longtail.data.labels import LabelCollector
from longtail.data.limits import FIELDS, shortened
from longtail.data.texts import Texts, TextsBuilder
from longtail.errors import DataError


def read_jsonl(
    path: PathLike,
    *,
    label_names: Sequence[str] | None = None,
    text_field: str = "text",
    labels_field: str | None = "labels",
) -> Dataset:
    """Read texts and labels from JSON lines; parameters as in `read_dataset`.

    Labels are strings or whole numbers; a label that occurs twice on a line counts once.
    """
    texts, labels = TextsBuilder(), LabelCollector(label_names)
    empty = True
    for line, entry in read_objects(path):
        empty = False
        text = _text(entry, text_field, path, line)
        try:
            texts.append(text)
        except UnicodeEncodeError as error:
            raise DataError(f"is not valid Unicode ({error.reason})", path=path, line=line, field=text_field) from error
        labels.add_point(() if labels_field is None else _labels(entry, labels_field, path, line))
    if empty:
        raise DataError("the file is empty", path=path)
    Y, names = labels.finish()
    return Dataset(Y=Y, texts=Texts(*texts.arrays()), label_names=names)


def read_objects(path: PathLike) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield line number and JSON object of each line that is not blank, reading one line at a time."""
    with files.reading(path) as stream:
        for line, content in enumerate(files.lines(stream, path), start=1):
            if content.isspace():
                continue
            try:
                # Windows programs write a byte order mark before the first line.
                entry = json.loads(content.decode("utf-8-sig" if line == 1 else "utf-8").rstrip())
            except UnicodeDecodeError as error:
                raise DataError(f"is not UTF-8 ({error.reason} at byte {error.start})", path=path, line=line) from error
            except json.JSONDecodeError as error:  # its own message counts lines within this line
                said = f"is not a JSON object ({error.msg.removesuffix(' at')} at column {error.colno})"
                raise DataError(said, path=path, line=line) from error
            except RecursionError as error:
                raise DataError("is not a JSON object: it is nested too deeply", path=path, line=line) from error
            except ValueError as error:
                raise DataError(f"is not a JSON object ({error})", path=path, line=line) from error
            if not isinstance(entry, dict):
                raise DataError(f"must be a JSON object, not {_kind(entry)}", path=path, line=line)
            FIELDS.check(len(entry), "fields", path=path, line=line)
            yield line, entry


def text_fields(text_field: str, found: Collection[str]) -> list[str]:
    """Return the fields that hold the text: the one of that name, or those that the name joins by `+`."""
    return [text_field] if text_field in found else text_field.split("+")


def _text(entry: dict[str, Any], text_field: str, path: PathLike, line: int) -> str:
    """Return the text of an object; several fields, and lists of texts in them, are joined by a space."""
    fields = text_fields(text_field, entry)
    parts: list[str] = []
    for field in fields:
        part = _field(entry, field, path, line)
        if isinstance(part, list) and len(fields) > 1 and all(isinstance(item, str) for item in part):
            parts += part  # e.g. the paragraphs of a law
        elif isinstance(part, str):
            parts.append(part)
        else:
            raise DataError(f"must be a string, not {_kind(part)}", path=path, line=line, field=field)
    return " ".join(parts)


def _field(entry: dict[str, Any], field: str, path: PathLike, line: int) -> Any:
    if field not in entry:
        found = shortened(map(repr, entry)) or "none"
        raise DataError(f"is missing; fields on this line: {found}", path=path, line=line, field=field)
    return entry[field]


def _labels(entry: dict[str, Any], field: str, path: PathLike, line: int) -> Iterator[str]:
    labels = _field(entry, field, path, line)
    if not isinstance(labels, list):
        raise DataError(f"must be a list of labels, not {_kind(labels)}", path=path, line=line, field=field)
    for label in labels:
        if isinstance(label, bool) or not isinstance(label, (str, int)) or label == "":
            said = f"a label must be a non-empty string or a whole number, not {json.dumps(label)[:40]}"
            raise DataError(said, path=path, line=line, field=field)
        name = str(label)
        try:
            name.encode("utf-8")
        except UnicodeEncodeError as error:
            raise DataError(f"is not valid Unicode ({error.reason})", path=path, line=line, field=field) from error
        yield name


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    names = {dict: "an object", list: "a list", str: "a string", bool: "true or false", int: "a number"}
    return names.get(type(value), "a number")


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
