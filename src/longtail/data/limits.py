"""Limits on what a small file may ask for: memory, width, length. Each has a variable that raises it.

A limit guards against damaged files and bombs. Real datasets stay far below; whoever has a larger one sets the variable
that the message names.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice

from longtail.core.inputs import PathLike
from longtail.core.plain import plain
from longtail.errors import DataError, ParameterError


@dataclass(frozen=True)
class Limit:
    """A limit with its environment variable.

    Parameters
    ----------
    variable : str
        Environment variable that replaces the default.
    default : int
        Limit where the variable is not set.
    """

    variable: str
    default: int

    def value(self) -> int:
        """Return the limit, or raise ParameterError if the variable is not a whole number."""
        text = os.environ.get(self.variable, "").strip()
        if not text:
            return self.default
        if not text.isdecimal() or len(text) > 18 or int(text) == 0:
            raise ParameterError(f"{self.variable} is {text[:40]!r}, but must be a whole number from 1")
        return int(text)

    def check(self, count: int, what: str, *, path: PathLike | None = None, line: int | None = None) -> None:
        """Raise DataError if `count` is above the limit.

        Parameters
        ----------
        count : int
            What the file asks for.
        what : str
            Unit of the count, e.g. "labels".
        path : str or path-like, optional
            The file.
        line : int, optional
            Line of the file.
        """
        if count > (limit := self.value()):
            said = f"{count:,} {what} are more than the limit of {limit:,}; if they are meant, set {self.variable}"
            raise DataError(said, path=path, line=line)


# Arrays have one entry per feature or label: 100 million labels are 0.8 GB of counts.
COLUMNS = Limit("LONGTAIL_MAX_COLUMNS", 100_000_000)
LINE_BYTES = Limit("LONGTAIL_MAX_LINE_BYTES", 1 << 28)
# Fields of a JSON object, columns of a table, members of an archive.
FIELDS = Limit("LONGTAIL_MAX_FIELDS", 100_000)
# A compressed file may grow to so many times its size, and in any case to so many bytes. Text grows 3 to 20 times.
GROWTH = Limit("LONGTAIL_MAX_GROWTH", 100)
CONTENT_BYTES = Limit("LONGTAIL_MAX_CONTENT_BYTES", 1 << 28)


def largest_content(compressed_bytes: int) -> int:
    """Return how many bytes a compressed file of this size may contain."""
    return max(CONTENT_BYTES.value(), GROWTH.value() * compressed_bytes)


def grown_too_large(path: PathLike | None = None) -> DataError:
    """Return the error for a compressed file with more content than `largest_content`."""
    said = f"is compressed more than {GROWTH.value()}-fold and contains over {CONTENT_BYTES.value():,} bytes"
    return DataError(f"{said}; if it is not a bomb, set {GROWTH.variable} to a larger factor", path=path)


def shortened(names: Iterable[str]) -> str:
    """Return names for a message, separated by commas: the first 20, each on one line."""
    shown = [plain(name, longest=100) for name in islice(names, 21)]
    return ", ".join(shown[:20]) + (", ..." if len(shown) > 20 else "")
