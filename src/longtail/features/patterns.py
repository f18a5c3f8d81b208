"""Regular expressions of words: refuse those that can take exponential time.

Python's `re` tries every way to split a text between two repetitions. With a repetition inside a repetition, as in
`(\\w+)+x`, there are exponentially many ways, and one long word stops the process. The check reads the parsed pattern:
a repetition may contain another one, or alternatives, only before or behind a character that nothing else in it can
match, as in `\\w+(?:-\\w+)*`. It is stricter than necessary; polynomial time remains possible.
"""

from __future__ import annotations

import re
import sys
from functools import lru_cache
from re import _constants as codes  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

_REPEATS = (codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT)
_SINGLE = (codes.LITERAL, codes.NOT_LITERAL, codes.IN, codes.ANY)
_EMPTY = (codes.AT, codes.ASSERT, codes.ASSERT_NOT)


@lru_cache(maxsize=64)  # models ask before every prediction
def may_explode(pattern: str) -> bool:
    """Return whether a regular expression may take exponential time.

    Parameters
    ----------
    pattern : str
        Valid regular expression.

    Returns
    -------
    bool
        False only if it cannot.
    """
    parsed = parser.parse(pattern)
    return _explodes(list(parsed), parsed.state.flags)


def _explodes(items: list[Any], flags: int) -> bool:
    for code, argument in items:
        if code in (codes.GROUPREF, codes.GROUPREF_EXISTS):
            return True
        if code in _REPEATS:
            _, most, body = argument
            if most > 1 and not _is_steady(list(body), flags):
                return True
        if any(_explodes(list(part), flags) for part in _parts(code, argument)):
            return True
    return False


def _parts(code: Any, argument: Any) -> list[Any]:
    """Return the patterns inside an item."""
    if code in _REPEATS:
        return [argument[2]]
    if code is codes.SUBPATTERN:
        return [argument[3]]
    if code is codes.BRANCH:
        return list(argument[1])
    if code in (codes.ASSERT, codes.ASSERT_NOT):
        return [argument[1]]
    return [argument] if code is codes.ATOMIC_GROUP else []


def _is_steady(body: list[Any], flags: int) -> bool:
    """Return whether a text can be split into copies of `body` in one way only."""
    items = _flat(body)
    if all(code in _SINGLE for code, _ in items):
        return bool(items)  # a fixed number of characters
    return _is_apart(items, flags) or _is_apart(items[::-1], flags)


def _is_apart(items: list[Any], flags: int) -> bool:
    """Return whether the first item is one character that none of the others can match."""
    (code, argument), rest = items[0], items[1:]
    if code not in _SINGLE:
        return False
    mark = _characters(code, argument, flags)
    for code, argument in rest:
        while code in _REPEATS:  # its body is checked by itself
            inner = _flat(list(argument[2]))
            if len(inner) != 1:
                return False
            code, argument = inner[0]
        if code not in _SINGLE or mark & _characters(code, argument, flags):
            return False
    return True


def _flat(items: list[Any]) -> list[Any]:
    """Return the items with those of groups in their place, without what matches no character."""
    flat: list[Any] = []
    for code, argument in items:
        if code is codes.SUBPATTERN:
            flat += _flat(list(argument[3]))
        elif code in _REPEATS and argument[0] == argument[1] > 0:  # a fixed number of copies
            flat += _flat(list(argument[2]))
        elif code not in _EMPTY:
            flat.append((code, argument))
    return flat


def _characters(code: Any, argument: Any, flags: int) -> set[str]:
    """Return all characters that an item matches."""
    if code is codes.ANY:
        return set(_every_character())
    if code is codes.LITERAL and not flags & re.IGNORECASE:
        return {chr(argument)}
    state = parser.State()
    state.flags = flags
    pattern = parser.SubPattern(state, [(code, argument)])
    return set(re._compiler.compile(pattern, flags).findall(_every_character()))  # type: ignore[attr-defined]


@lru_cache(maxsize=1)
def _every_character() -> str:
    return "".join(chr(i) for i in range(sys.maxunicode + 1))
