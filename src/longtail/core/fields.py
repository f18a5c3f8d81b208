"""Words with the field they come from: `title_whale` is the word "whale" in the field "title"."""

from __future__ import annotations

import re
from collections.abc import Iterable

JOINT = "_"


def field_prefix(field: str) -> str:
    """Return what stands before the joint in the words of a field: its name without spaces and underscores."""
    return re.sub(r"[\W_]+", "-", field).strip("-") or "field"


def split_field(word: str) -> tuple[str, str]:
    """Return the prefix of a word with its joint, which may be empty, and the rest of the word."""
    prefix, joint, rest = word.partition(JOINT)
    return (prefix + joint, rest) if joint else ("", word)


def without_prefixes(texts: Iterable[str], fields: Iterable[str]) -> list[str]:
    """Return the texts as they were before their words got the prefixes of these fields."""
    names = "|".join(re.escape(field_prefix(field)) for field in fields)
    prefix = re.compile(rf"\b(?:{names}){JOINT}")
    return [prefix.sub("", text) for text in texts]
