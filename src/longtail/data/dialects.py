"""CSV dialects: find delimiter and quoting by looking at the first rows."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import islice

from longtail.errors import ParameterError

SAMPLE_BYTES = 1 << 16
_DELIMITERS = (",", ";", "\t", "|")
_WORDS = {"tab": "\t", r"\t": "\t", "comma": ",", "semicolon": ";"}  # what a shell makes hard to type
_ROWS = 100
_HINT = re.compile(r"sep=(.)\r?\n")  # Excel reads and writes such a first line


@dataclass(frozen=True)
class Dialect:
    """How a CSV file separates and quotes its cells.

    Attributes
    ----------
    delimiter : str
        Character between two cells.
    quote : str
        Character around a cell.
    escape : str or None
        Character before a quote inside a cell; None if it is written twice.
    skipped : int
        Number of lines before the column names.
    """

    delimiter: str = ","
    quote: str = '"'
    escape: str | None = None
    skipped: int = 0


def check_delimiter(delimiter: str | None) -> str | None:
    """Return the delimiter as one character ("tab" for a tabulator), or raise ParameterError."""
    if delimiter is None:
        return None
    found = _WORDS.get(delimiter.lower(), delimiter) if isinstance(delimiter, str) else ""
    if len(found) != 1 or not found.isascii() or found.isalnum() or found in '"\r\n\0':
        raise ParameterError(f"delimiter is {delimiter!r}, but must be one character, e.g. ';', or tab")
    return found


def find_dialect(
    sample: str, wanted: Collection[str], *, cut: bool = False, delimiter: str | None = None, usual: str = ","
) -> Dialect:
    """Return the dialect in which the first rows make most sense.

    A dialect is better the more of the wanted columns it finds in the first row, then the more rows have as many cells
    as the first, then the more cells that are.

    Parameters
    ----------
    sample : str
        Beginning of the file.
    wanted : collection of str
        Names of columns that should be in the first row.
    cut : bool, default False
        The sample may end inside a row.
    delimiter : str or None, default None
        The delimiter, if it is known.
    usual : str, default ","
        Delimiter that wins a tie.

    Returns
    -------
    Dialect
    """
    hint = _HINT.match(sample)
    skipped = 1 if hint else 0
    if hint:
        sample, usual = sample[hint.end() :], hint[1]
    delimiters = [delimiter] if delimiter else list(dict.fromkeys((usual, *_DELIMITERS)))
    best, best_score = Dialect(delimiters[0], skipped=skipped), (-1, -1.0, -1)
    for separator in delimiters:
        for quote, escape in (('"', None), ('"', "\\"), ("'", None)):
            if quote == separator:
                continue
            dialect = Dialect(separator, quote, escape, skipped)
            score = _score(sample, dialect, wanted, cut)
            if score > best_score:
                best, best_score = dialect, score
    return best


def first_row(sample: str, dialect: Dialect) -> list[str]:
    """Return the names of the columns."""
    rest = sample if not dialect.skipped else sample.split("\n", dialect.skipped)[-1]
    try:
        return next((row for row in _rows(rest, dialect) if row), [])
    except csv.Error:
        return []


def _rows(sample: str, dialect: Dialect) -> Iterator[list[str]]:
    return csv.reader(
        io.StringIO(sample, newline=""), delimiter=dialect.delimiter, quotechar=dialect.quote,
        escapechar=dialect.escape, doublequote=dialect.escape is None, strict=True,
    )  # fmt: skip


def _score(sample: str, dialect: Dialect, wanted: Collection[str], cut: bool) -> tuple[int, float, int]:
    read: list[list[str]] = []
    broken = False
    try:
        for row in islice(_rows(sample, dialect), _ROWS):
            read.append(row)
    except csv.Error as error:  # in a sample that is cut, the last row may look broken
        broken = not (cut and "unexpected end" in str(error))
    else:
        if cut and len(read) < _ROWS:
            read = read[:-1] or read
    read = [row for row in read if row]
    if not read:
        return (0, 0.0, 0)
    header, rest = read[0], read[1:]
    looked_at = len(rest) + broken
    regular = sum(len(row) == len(header) and not any(map(_stray_quote, row)) for row in rest)
    return (sum(name in header for name in wanted), regular / looked_at if looked_at else 1.0, len(header))


def _stray_quote(cell: str) -> bool:
    """Return whether a cell begins with a quote that does not end it: the quote of another dialect, cut in two."""
    return cell[:1] in ("'", '"') and (len(cell) == 1 or cell[-1] != cell[0])
