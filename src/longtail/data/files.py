"""Open files for reading and writing: compression by extension, longtail's errors, no half-written files."""

from __future__ import annotations

import gzip
import io
import lzma
import os
import secrets
import zlib
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any, BinaryIO

import zstandard

from longtail.core.inputs import PathLike
from longtail.data.ahead import read_ahead
from longtail.errors import DataError, LongtailError, OutputError

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
    except LongtailError:
        raise
    except _DAMAGE as error:
        raise DataError(f"is damaged or truncated ({str(error) or type(error).__name__})", path=path) from error
    except OSError as error:
        raise DataError(f"cannot be read ({error.strerror or error})", path=path) from error


def _decompressed(raw: BinaryIO, compression: str) -> Any:
    if compression == ".gz":
        return gzip.GzipFile(fileobj=raw)
    if compression == ".xz":
        return lzma.LZMAFile(raw)
    if compression == ".zst":
        return io.BufferedReader(_ZstdStream(raw), 1 << 17)
    return raw


class _ZstdStream(io.RawIOBase):
    """Decompressed bytes of a zstandard file. The package's own reader does not notice a truncated file."""

    def __init__(self, raw: BinaryIO) -> None:
        self._raw = raw
        self._frame = zstandard.ZstdDecompressor().decompressobj()
        self._inside = False
        self._ready = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, target: Any) -> int:
        while not self._ready:
            piece = (self._frame.unused_data if self._frame.eof else b"") or self._raw.read(1 << 17)
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
    if not path.parent.is_dir():
        raise OutputError(f"{path}: the folder {path.parent} does not exist")
    if not os.access(path.parent, os.W_OK):
        raise OutputError(f"{path}: no permission to write to the folder {path.parent}")
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
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        with open(temporary, "xb") as raw:
            with _compressing(raw, suffixes(path)[1]) as stream:
                yield stream
            raw.flush()
            os.fsync(raw.fileno())
        os.replace(temporary, path)
    except LongtailError:
        raise
    except OSError as error:
        raise OutputError(f"{path}: could not be written ({error.strerror or error})") from error
    finally:
        temporary.unlink(missing_ok=True)


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
