"""KEY=VALUE pairs of a command line."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import Any


def settings(pairs: Iterable[str]) -> dict[str, Any]:
    """Return the values by key; what is no Python value is a string."""
    return {key: _value(text) for key, text in (pair.split("=", 1) for pair in pairs)}


def _value(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text
