"""Records with named fields, from JSON, tables or memory, collected to a dataset."""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from longtail.data.dataset import Dataset
from longtail.data.labels import LabelCollector
from longtail.data.reading import OPTIONS, FieldPath, Reading, prefixed
from longtail.data.texts import Texts, TextsBuilder
from longtail.errors import DataError

logger = logging.getLogger(__name__)

# Makes the error at a place (a line or a row), about a field.
Complain = Callable[[int, str, str], DataError]


class RecordCollector:
    """Builder of a dataset from one record after another.

    Parameters
    ----------
    reading : Reading
        Which fields to read.
    complain : callable
        Makes the error from place, field and message.
    label_names : sequence of str, optional
        Label ids follow this list.
    cells : bool, default False
        Records are rows of a table: labels may be one string with separators between them, weights may be strings.
    """

    def __init__(
        self, reading: Reading, complain: Complain, *, label_names: Sequence[str] | None = None, cells: bool = False
    ) -> None:
        self._reading, self._complain, self._cells = reading, complain, cells
        self._text_paths = reading.text_paths()
        self._never_seen = {path.name for path in self._text_paths} if len(self._text_paths) > 1 else set()
        self._label_path = None if reading.labels is None else FieldPath(reading.labels)
        self._label_text_path = None if reading.label_texts is None else FieldPath(reading.label_texts)
        self._relevance_path: FieldPath | None = None
        if self._label_path is not None and reading.relevance is not None:
            self._relevance_path = self._label_path.sibling(reading.relevance)
        self._id_path = None if reading.ids is None else FieldPath(reading.ids)
        self._weight_path = None if reading.weights is None else FieldPath(reading.weights)
        place = reading.workspace
        self._texts, self._ids, self._weights = TextsBuilder(place), TextsBuilder(place), place.growing(np.float32)
        self._labels, self._text_of_label = LabelCollector(label_names, place), dict[str, str]()
        self._first: tuple[int, list[str]] | None = None
        self.n_points = self._n_null = 0

    def add(self, record: Mapping[str, Any], place: int) -> None:
        """Add the point of one record; `place` is its line or row."""
        if self._first is None:
            self._first = (place, list(record))
        self.n_points += 1
        try:
            self._texts.append(self._text(record, place))
        except UnicodeEncodeError as error:
            said = f"is not valid Unicode ({error.reason})"
            raise self._complain(place, self._text_paths[0].name, said) from error
        if self._label_path is None:
            self._labels.add_point(())
        else:
            self._add_labels(self._label_path, record, place)
        if self._id_path is not None:
            self._add_id(self._id_path, record, place)
        if self._weight_path is not None:
            value = self._find(self._weight_path, record, place)
            self._weights.append(self._number(value, self._weight_path.name, place, "weight", math.inf))

    def finish(self) -> Dataset:
        """Return the dataset of all records."""
        if self._never_seen and self._first is not None:
            place, found = self._first
            raise self._missing(place, FieldPath(min(self._never_seen)), "is in no record", found)
        if self._n_null:
            logger.warning("%d of %d texts are null and read as empty", self._n_null, self.n_points)
        Y, names = self._labels.finish()
        texts = None
        if self._label_text_path is not None:
            texts = [self._text_of_label.get(name, name) for name in names]
        return Dataset(
            Y=Y, texts=Texts(*self._texts.arrays()), label_names=names, label_texts=texts,
            ids=None if self._id_path is None else Texts(*self._ids.arrays()),
            weights=None if self._weight_path is None else self._weights.array(),
        )  # fmt: skip

    def _find(self, path: FieldPath, record: Mapping[str, Any], place: int) -> Any:
        try:
            return path.find(record)
        except KeyError as error:
            raise self._missing(place, path, "is missing", record) from error
        except TypeError as error:
            raise self._complain(place, path.name, str(error)) from error

    def _missing(self, place: int, path: FieldPath, said: str, found: Iterable[str]) -> DataError:
        """Return the error for a field that is not there, with the option that names another."""
        others = {"labels": self._label_path, "label_texts": self._label_text_path, "ids": self._id_path}
        others["weights"] = self._weight_path
        option = next((name for name, other in others.items() if path is other), "text")
        error = self._complain(place, path.name, f"{said}; fields here: {_listed(found)} ({option_of(option)})")
        error.missing = True
        return error

    def _text(self, record: Mapping[str, Any], place: int) -> str:
        """Return the text of a record; several fields, and lists of texts in them, are joined by a space."""
        paths = self._text_paths
        if len(paths) == 1:
            value = self._find(paths[0], record, place)
            if isinstance(value, str) and self._reading.fields == "joined":
                return value
            if value is None:
                self._n_null += 1
            return self._part(paths[0], value, place)
        if self._reading.text in record:  # a field whose own name contains commas
            self._never_seen.clear()
            return self._part(FieldPath(str(self._reading.text)), record[str(self._reading.text)], place)
        parts = []
        for path in paths:
            if path.column(record) in record:  # a record need not have an abstract
                self._never_seen.discard(path.name)
                parts.append(self._part(path, self._find(path, record, place), place))
        return " ".join(part for part in parts if part)

    def _part(self, path: FieldPath, value: Any, place: int) -> str:
        if value is None:
            return ""
        if isinstance(value, list) and (path.many or len(self._text_paths) > 1):  # e.g. the paragraphs of a law
            items = [item for item in value if item is not None]
            if all(isinstance(item, str) for item in items):
                value = " ".join(items)
        if not isinstance(value, str):
            raise self._complain(place, path.name, f"must be a string, not {kind(value)}")
        return value if self._reading.fields == "joined" else prefixed(value, path.name)

    def _add_labels(self, path: FieldPath, record: Mapping[str, Any], place: int) -> None:
        found = self._find(path, record, place)
        names = [self._label(label, path.name, place) for label in self._items(found, path.name, place)]
        relevances = self._relevances(record, len(names), place)
        self._labels.add_point(names, relevances)
        if self._label_text_path is None:
            return
        field = self._label_text_path.name
        texts = self._items(self._find(self._label_text_path, record, place), field, place)
        if len(texts) != len(names):
            said = f"has {len(texts)} texts, but {path.name!r} has {len(names)} labels"
            raise self._complain(place, field, said)
        for name, text in zip(names, texts, strict=True):
            if text is not None and name not in self._text_of_label:
                self._text_of_label[name] = self._label(text, field, place)

    def _items(self, value: Any, field: str, place: int) -> list[Any]:
        if value is None:
            return []
        if self._cells and isinstance(value, str):
            return [name for name in (part.strip() for part in value.split(self._reading.separator)) if name]
        if not isinstance(value, list):
            also = f", or labels separated by {self._reading.separator!r}" if self._cells else ""
            raise self._complain(place, field, f"must be a list of labels{also}, not {kind(value)}")
        return value

    def _label(self, label: Any, field: str, place: int) -> str:
        if isinstance(label, Mapping):
            keys = ", ".join(map(str, label))
            said = f"labels are objects with {keys}; say which is the label, e.g. {field}[].{next(iter(label), 'id')}"
            raise self._complain(place, field, f"{said} ({option_of('labels')})")
        if isinstance(label, bool) or not isinstance(label, (str, int)) or label == "":
            said = f"a label must be a non-empty string or a whole number, not {json.dumps(label, default=str)[:40]}"
            raise self._complain(place, field, said)
        name = str(label)
        try:
            name.encode("utf-8")
        except UnicodeEncodeError as error:
            raise self._complain(place, field, f"is not valid Unicode ({error.reason})") from error
        return name

    def _relevances(self, record: Mapping[str, Any], n_labels: int, place: int) -> list[float] | None:
        path = self._relevance_path
        if path is None or self._label_path is None or self._label_path.name in record:
            return None
        values = self._find(path, record, place)
        if len(values) != n_labels or all(value is None for value in values):
            return None
        return [
            1.0 if value is None else self._number(value, path.name, place, "relevance of a label", 1.0, zero=True)
            for value in values
        ]

    def _add_id(self, path: FieldPath, record: Mapping[str, Any], place: int) -> None:
        value = self._find(path, record, place)
        if isinstance(value, bool) or not isinstance(value, (str, int)) or value == "":
            said = f"an id must be a non-empty string or a whole number, not {json.dumps(value, default=str)[:40]}"
            raise self._complain(place, path.name, said)
        try:
            self._ids.append(str(value))
        except UnicodeEncodeError as error:
            raise self._complain(place, path.name, f"is not valid Unicode ({error.reason})") from error

    def _number(self, value: Any, field: str, place: int, what: str, largest: float, *, zero: bool = False) -> float:
        kinds = (int, float, str) if self._cells else (int, float)
        number = _as_float(value) if isinstance(value, kinds) and not isinstance(value, bool) else math.nan
        if math.isfinite(number) and (number > 0 or (zero and number == 0)) and number <= min(largest, 3e38):
            return number
        span = "from 0 to 1" if zero else "greater than 0"
        shown = json.dumps(value, default=str)[:40]
        raise self._complain(place, field, f"the {what} must be a number {span}, not {shown}")


def option_of(option: str) -> str:
    """Return an option as messages show it: its name in Python and on the command line."""
    return f"use {OPTIONS[option]}, {option}= in Python"


def kind(value: Any) -> str:
    """Return what a JSON value is, in words."""
    if value is None:
        return "null"
    names = {dict: "an object", list: "a list", str: "a string", bool: "true or false", int: "a number"}
    return names.get(type(value), "a number" if isinstance(value, float) else type(value).__name__)


def _as_float(value: Any) -> float:
    try:
        return float(value)
    except (ValueError, OverflowError):
        return math.nan


def _listed(names: Any) -> str:
    return ", ".join(map(repr, names)) or "none"
