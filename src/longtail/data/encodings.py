"""Encodings of text files: byte order marks, files that are not UTF-8, and messages that name the likely encoding."""

from __future__ import annotations

import codecs
import io
from typing import Any, BinaryIO

from longtail.core.inputs import PathLike
from longtail.data import files
from longtail.errors import DataError, ParameterError

# The mark of UTF-32-LE begins with that of UTF-16-LE, so the longer ones come first.
_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32"), (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"),
)  # fmt: skip
_UTF8 = ("utf-8", "utf-8-sig", "ascii")
_PIECE = 1 << 16


def check_encoding(encoding: str | None) -> None:
    """Raise ParameterError if Python does not know a text encoding of that name."""
    if encoding is None:
        return
    try:
        known = codecs.lookup(encoding)._is_text_encoding
    except (LookupError, ValueError, TypeError):
        known = False
    if not known:
        raise ParameterError(f"encoding is {encoding!r}, which is unknown; use e.g. utf-8, utf-16, latin-1 or cp1252")


def as_utf8(stream: BinaryIO, encoding: str | None, path: PathLike) -> BinaryIO:
    """Return a stream of UTF-8: the stream itself, or one that converts it.

    Parameters
    ----------
    stream : file object
        Stream with `peek`.
    encoding : str or None
        Encoding of the bytes; None honours a byte order mark and expects UTF-8 without one.
    path : str or path-like
        File, for messages.

    Returns
    -------
    file object
        It may still begin with the byte order mark of UTF-8.
    """
    if encoding is None:
        start = stream.peek(4)[:4]  # type: ignore[attr-defined]
        encoding = next((name for mark, name in _MARKS if start.startswith(mark)), None)
    if encoding is None or codecs.lookup(encoding).name in _UTF8:
        return stream
    return io.BufferedReader(_Recoded(stream, encoding, path), _PIECE)


class _Recoded(io.RawIOBase):
    """The bytes of a stream in another encoding, as UTF-8."""

    def __init__(self, stream: BinaryIO, encoding: str, path: PathLike) -> None:
        self._stream, self._encoding, self._path = stream, encoding, path
        self._decoder = codecs.getincrementaldecoder(encoding)()
        self._ready = memoryview(b"")
        self._ended = False

    def readable(self) -> bool:
        return True

    def readinto(self, target: Any) -> int:
        while not self._ready and not self._ended:
            piece = self._stream.read(_PIECE)
            self._ended = not piece
            try:
                text = self._decoder.decode(piece, final=self._ended)
                self._ready = memoryview(text.encode("utf-8"))
            except UnicodeError as error:
                reason = getattr(error, "reason", str(error))
                raise DataError(f"is not {self._encoding} ({reason})", path=self._path) from error
        size = min(len(target), len(self._ready))
        target[:size] = self._ready[:size]
        self._ready = self._ready[size:]
        return size


def likely_encoding(content: bytes) -> str:
    """Return the likely encoding of bytes that are not UTF-8: UTF-16 by its zero bytes, else a Western code page."""
    if b"\0" in content:
        return "utf-16-le" if content[1::2].count(0) >= content[::2].count(0) else "utf-16-be"
    return "cp1252" if any(0x80 <= byte < 0xA0 for byte in content) else "latin-1"


def not_utf8(content: bytes, path: PathLike, line: int | None = None, reason: str = "") -> DataError:
    """Return the error for bytes that are not UTF-8, with the encoding that they look like."""
    name = likely_encoding(content)
    why = f" ({reason})" if reason else ""
    said = f"is not UTF-8{why}, but looks like {name}; use encoding={name!r}, --encoding {name}"
    return DataError(said, path=path, line=line)


def refuse_other_encodings(path: PathLike) -> None:
    """Raise DataError at the first line that is not UTF-8 or contains a zero byte; called when a reader has failed."""
    with files.reading(path) as stream:
        for line, content in enumerate(stream, start=1):
            try:
                content.decode("utf-8")
            except UnicodeDecodeError as error:
                raise not_utf8(content, path, line, f"{error.reason} at byte {error.start}") from error
            if b"\0" in content:
                raise not_utf8(content, path, line, "a zero byte")
