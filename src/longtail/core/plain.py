"""Text of others in our output: label names, file names, parameters and errors must not steer a terminal or a log."""

from __future__ import annotations

import re

_LONGEST = 2000
# Control characters (ESC begins the sequences of terminals, C1 has a one-byte form of it), line and paragraph
# separators, and marks that change the direction of writing, so that a name would look like another one.
_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff]")
_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def plain(text: str, longest: int = _LONGEST) -> str:
    """Return a text as one line without control characters; the middle of a long one is left out.

    Parameters
    ----------
    text : str
        Any text.
    longest : int, default 2000
        Characters to show.

    Returns
    -------
    str
    """
    if len(text) > longest:
        text = f"{text[: longest // 2]} ... {text[-longest // 2 :]}"
    return _UNSAFE.sub(_escaped, text)


def plain_json(text: str) -> str:
    """Return JSON with the same values, whose strings contain no control characters."""
    return _UNSAFE.sub(lambda match: match[0] if match[0] == "\n" else f"\\u{ord(match[0]):04x}", text)


def _escaped(match: re.Match[str]) -> str:
    code = ord(match[0])
    return _SHORT.get(match[0]) or (f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}")
