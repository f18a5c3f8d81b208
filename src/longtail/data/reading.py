"""What to read from a record: which fields hold the text, the labels, the id, and how a table is written."""

from __future__ import annotations

import csv
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from longtail.core.fields import JOINT, field_prefix
from longtail.core.parameters import check_choice
from longtail.core.workspace import Workspace
from longtail.data.dialects import check_delimiter
from longtail.data.encodings import check_encoding
from longtail.data.labels import SEPARATOR
from longtail.errors import ParameterError

_STEP = re.compile(r"([^.\[\]]+)(\[\])?")
_WORD = re.compile(r"[^\W_][\w\-]*")  # as in the default token_pattern of TextFeatures, which keeps prefix_word whole


@dataclass(frozen=True)
class Reading:
    """Checked options of `read_dataset` that concern records; see there for what they mean."""

    text: str | Sequence[str] = "text"
    fields: str = "joined"
    labels: str | None = "labels"
    label_texts: str | None = None
    relevance: str | None = "weight"
    ids: str | None = None
    weights: str | None = None
    separator: str = SEPARATOR
    delimiter: str | None = None
    encoding: str | None = None
    workspace: Workspace = field(default_factory=Workspace, compare=False)

    def __post_init__(self) -> None:
        several = isinstance(self.text, Iterable) and not isinstance(self.text, str)
        text = tuple(self.text) if several else self.text
        names = text if isinstance(text, tuple) else (text,)
        if not names or not all(isinstance(name, str) and name for name in names):
            raise ParameterError(f"text is {self.text!r}, but must be the name of a field, or a list of names")
        object.__setattr__(self, "text", text)
        for option in ("labels", "label_texts", "relevance", "ids", "weights"):
            value = getattr(self, option)
            if value is not None and not (isinstance(value, str) and value):
                raise ParameterError(f"{option} is {value!r}, but must be the name of a field")
        if self.relevance is not None and self.labels is not None:
            object.__setattr__(self, "relevance", _beside(self.labels, self.relevance))
        check_choice("fields", self.fields, ("joined", "separate"))
        if not isinstance(self.separator, str) or not self.separator:
            raise ParameterError(
                f"separator is {self.separator!r}, but must be the string between two labels, e.g. ';'"
            )
        object.__setattr__(self, "delimiter", check_delimiter(self.delimiter))
        check_encoding(self.encoding)

    def text_paths(self, found: Collection[str] = ()) -> list[FieldPath]:
        """Return where the text is: the field of that name if it is found, else the names between the commas."""
        if not isinstance(self.text, str):
            return [FieldPath(name) for name in self.text]
        if self.text in found:
            return [FieldPath(self.text)]
        # A name that contains a comma is written in quotes, as in a CSV file.
        try:
            (names,) = csv.reader([self.text], skipinitialspace=True)
        except (csv.Error, ValueError):
            names = []
        return [FieldPath(name.strip()) for name in names if name.strip()] or [FieldPath(self.text)]

    def paths(self, found: Collection[str] = ()) -> list[tuple[str, FieldPath]]:
        """Return each field to read, with the option that names it."""
        named = [("text", path) for path in self.text_paths(found)]
        for option in ("labels", "label_texts", "ids", "weights"):
            value = getattr(self, option)
            if value is not None:
                named.append((option, FieldPath(value)))
        return named


# How the command line calls these options.
OPTIONS = {
    "text": "--text-field", "labels": "--labels-field", "label_texts": "--label-texts-field", "ids": "--id-field",
    "weights": "--weight-field",
}  # fmt: skip


class FieldPath:
    """Place of a value in a record: `title`, `title.en`, or `subjects[].uri` for every object of a list.

    A field that is really called so comes first.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        parts = name.split(".")
        matches = [_STEP.fullmatch(part) for part in parts]
        # A name that is no path, such as "a..b", can only be the name of a field.
        self._steps = [(m[1], bool(m[2])) for m in matches if m] if all(matches) else [(name, False)]
        self.inside = len(self._steps) > 1 or self._steps[0][1]
        self.many = any(each for _, each in self._steps)

    def column(self, found: Collection[str]) -> str:
        """Return the field at the top of the record that has to be read."""
        return self.name if self.name in found else self._steps[0][0]

    def sibling(self, key: str) -> FieldPath | None:
        """Return the path to another key of the same objects; None if the values are not in objects of a list."""
        head, dot, _ = self.name.rpartition(".")
        return FieldPath(f"{head}.{key}") if dot and head.endswith("[]") else None

    def find(self, record: Mapping[str, Any]) -> Any:
        """Return the value in a record, or a flat list of the values if the path leads through a list.

        What is missing below the top is None; a missing field at the top is a KeyError, a value that the path does not
        fit a TypeError.
        """
        if not self.inside or self.name in record:
            return record[self.name]
        values: list[Any] = [record[self._steps[0][0]]]
        for depth, (key, each) in enumerate(self._steps):
            if depth:
                values = [None if value is None else _item(value, key) for value in values]
            if each:
                values = [item for value in values for item in _items(value, key)]
        return values if self.many else values[0]


def _beside(labels: str, relevance: str) -> str:
    """Return the key of a relevance, which may also be given as a path beside that of the labels."""
    head, dot, _ = labels.rpartition(".")
    key = relevance.removeprefix(head + dot) if head.endswith("[]") else relevance
    if "[]" in key:
        raise ParameterError(
            f"relevance is {relevance!r}, but must be a key beside the labels, whose path is {labels!r}: "
            'weight for objects such as {"uri": ..., "weight": 0.5} in subjects[].uri'
        )
    return key


def _item(value: Any, key: str) -> Any:
    if isinstance(value, list):
        raise TypeError(f"{key!r} is looked for in a list; write [] after a field that holds a list, as in a[].{key}")
    if not isinstance(value, Mapping):
        raise TypeError(f"{key!r} is looked for in {value!r:.40}, which is not an object")
    return value.get(key)


def _items(value: Any, key: str) -> Sequence[Any]:
    if value is None:
        return ()
    if not isinstance(value, list):
        raise TypeError(f"{key!r} must be a list, not {value!r:.40}")
    return value


def prefixed(text: str, field: str) -> str:
    """Return the text with the field before each of its words: "a title" in the field title is "title_a title_title".

    So the same word makes different features in different fields.
    """
    prefix = field_prefix(field) + JOINT
    return _WORD.sub(lambda match: prefix + match[0], text)
