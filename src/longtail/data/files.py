"""Open files for reading and writing: compression by extension, longtail's errors, no half-written files."""

from __future__ import annotations

import gzip
import io
import lzma
import os
import zlib
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any, BinaryIO

import zstandard

from longtail.core.inputs import PathLike
from longtail.core.unfinished import check_place, remove_dead_temporaries, temporary_name, unfinished
from longtail.data.ahead import read_ahead
from longtail.data.limits import LINE_BYTES, grown_too_large, largest_content
from longtail.errors import DataError, LongtailError, OutputError, first_line

_ZSTD_PIECE = 1 << 11
COMPRESSIONS = (".gz", ".xz", ".zst")
_LARGE = 1 << 18  # bytes of a compressed file from which a thread of its own pays
_DAMAGE = (EOFError, gzip.BadGzipFile, lzma.LZMAError, zlib.error, zstandard.ZstdError)


def suffixes(path: PathLike) -> tuple[str, str]:
    """Return the extension of the format and that of the compression, in lower case ("" if there is none)."""
    found = Path(path).suffix.lower()
    if found in COMPRESSIONS:
        return Path(path).with_suffix("").suffix.lower(), found
    return found, ""


@contextmanager
def reading(path: PathLike) -> Iterator[BinaryIO]:
    """Open a file for reading and decompress it; damaged, truncated and missing files raise DataError."""
    compression = suffixes(path)[1]
    try:
        with open(path, "rb") as raw:
            stream = _decompressed(raw, compression)
            if not compression or os.fstat(raw.fileno()).st_size < _LARGE:
                yield stream
                return
            with read_ahead(stream) as ahead:
                yield ahead
    except DataError as error:
        if error.path is not None:
            raise
        raise DataError(error.message, path=path, line=error.line, field=error.field) from error
    except LongtailError:
        raise
    except _DAMAGE as error:
        raise DataError(f"is damaged or truncated ({first_line(error)})", path=path) from error
    except OSError as error:
        raise DataError(f"cannot be read ({error.strerror or first_line(error)})", path=path) from error


def _decompressed(raw: BinaryIO, compression: str) -> Any:
    if not compression:
        return raw
    stream: Any
    if compression == ".gz":
        stream = gzip.GzipFile(fileobj=raw)
    elif compression == ".xz":
        stream = lzma.LZMAFile(raw)  # noqa: SIM115 - the caller closes `raw`
    else:
        stream = _ZstdStream(raw)
    bounded = _Bounded(stream, largest_content(os.fstat(raw.fileno()).st_size))
    return io.BufferedReader(bounded, 1 << 17)


def lines(stream: BinaryIO, path: PathLike) -> Iterator[bytes]:
    """Yield the lines of a file with their ends; one that is longer than the limit raises DataError."""
    limit = LINE_BYTES.value()
    number = 0
    while line := stream.readline(limit + 1):
        number += 1
        if len(line) > limit:
            check_line(line, path, number)
        yield line


def check_line(start: bytes, path: PathLike, number: int) -> None:
    """Raise DataError if the start of a line shows that it is longer than the limit."""
    LINE_BYTES.check(len(start), "bytes in one line, or more,", path=path, line=number)


class _Bounded(io.RawIOBase):
    """Bytes of a decompressing stream, which raises DataError beyond a limit: the file is a bomb."""

    def __init__(self, stream: Any, limit: int) -> None:
        self._stream, self._left = stream, limit

    def readable(self) -> bool:
        return True

    def readinto(self, target: Any) -> int:
        size = int(self._stream.readinto(target))
        self._left -= size
        if self._left < 0:
            raise grown_too_large()
        return size


class _ZstdStream(io.RawIOBase):
    """Decompressed bytes of a zstandard file. The package's own reader does not notice a truncated file.

    Four bytes can stand for 128 KiB (a block that repeats one byte), so one piece becomes 64 MiB at most.
    """

    def __init__(self, raw: BinaryIO) -> None:
        self._raw = raw
        self._frame = zstandard.ZstdDecompressor().decompressobj()
        self._inside = False
        self._ready = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, target: Any) -> int:
        while not self._ready:
            piece = (self._frame.unused_data if self._frame.eof else b"") or self._raw.read(_ZSTD_PIECE)
            if not piece:
                if self._inside:
                    raise EOFError("the file ends inside compressed data")
                return 0
            if self._frame.eof:
                self._frame = zstandard.ZstdDecompressor().decompressobj()
            self._ready = memoryview(self._frame.decompress(piece))
            self._inside = not self._frame.eof
        size = min(len(target), len(self._ready))
        target[:size] = self._ready[:size]
        self._ready = self._ready[size:]
        return size


def check_free(path: PathLike, *, overwrite: bool) -> Path:
    """Return the path if a file may be written there, else raise OutputError."""
    path = Path(path)
    check_place(path)
    if path.is_dir():
        raise OutputError(f"{path} is a folder; choose a file name")
    if path.exists() and not overwrite:
        raise OutputError(f"{path} exists; choose another output path, or overwrite it (overwrite=True, --overwrite)")
    return path


@contextmanager
def writing(path: PathLike, *, overwrite: bool) -> Iterator[BinaryIO]:
    """Open a stream that becomes the file `path` when the block succeeds; on an error nothing changes.

    The extension of `path` chooses the compression.
    """
    path = check_free(path, overwrite=overwrite)
    try:
        remove_dead_temporaries(path)
        with unfinished(temporary_name(path)) as temporary:
            try:
                with open(temporary, "wb") as raw:
                    with _compressing(raw, suffixes(path)[1]) as stream:
                        yield stream
                    raw.flush()
                    os.fsync(raw.fileno())
                os.replace(temporary, path)
            finally:
                temporary.unlink(missing_ok=True)
    except LongtailError:
        raise
    except OSError as error:
        raise OutputError(f"{path}: could not be written ({error.strerror or error})") from error


def _compressing(raw: BinaryIO, compression: str) -> AbstractContextManager[Any]:
    """Return a stream that compresses into `raw` and leaves `raw` open when it is closed."""
    if compression == ".gz":
        # mtime=0: the same content gives the same file.
        return gzip.GzipFile(filename="", fileobj=raw, mode="wb", compresslevel=6, mtime=0)
    if compression == ".xz":
        return lzma.LZMAFile(raw, "wb")
    if compression == ".zst":
        return zstandard.ZstdCompressor(level=6).stream_writer(raw, closefd=False)
    return nullcontext(raw)
