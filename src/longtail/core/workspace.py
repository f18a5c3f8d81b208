"""Where the large working copies of a training are: in memory, or in files that the system maps and may write back.

Such a file has no name, so that it ends with the process, however that ends.
"""

from __future__ import annotations

import os
import tempfile
import weakref
from array import array
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from longtail.core.memory import huge_zeros, read_only
from longtail.core.urls import is_url, shown
from longtail.errors import OutputError

_LEAST = 1 << 20  # bytes from which on an array gets a file
_HELD = 1 << 22  # bytes that a growing array holds in memory before they go to its file
_CODES = {np.dtype(code): code for code in "Biqf"}  # of `array.array`


class Workspace:
    """Makes large arrays.

    Parameters
    ----------
    folder : str or path-like, optional
        Folder for files that hold them, on a local disk; None keeps them in memory.

    Raises
    ------
    OutputError
        If there is no such folder, or it cannot be written.
    """

    def __init__(self, folder: str | os.PathLike[str] | None = None) -> None:
        self.folder = None if folder is None else Path(folder)
        if self.folder is None:
            return
        if is_url(folder):
            raise OutputError(f"{shown(str(folder))} is an address; working copies need a folder on a local disk")
        if not self.folder.is_dir():
            raise OutputError(f"{self.folder} is not a folder for working copies; make it first")
        if not os.access(self.folder, os.W_OK | os.X_OK):
            raise OutputError(f"{self.folder} cannot be written; choose another folder for working copies")

    def zeros(self, shape: tuple[int, ...], dtype: DTypeLike = np.float32) -> NDArray[Any]:
        """Return zeros of this shape and type, on huge pages or in a file."""
        dtype = np.dtype(dtype)
        size = int(np.prod(shape)) * dtype.itemsize
        if self.folder is None or size < _LEAST:
            return huge_zeros(shape, dtype)
        try:
            with tempfile.TemporaryFile(dir=self.folder) as file:
                # Reserved now: writing to a mapped file on a full disk would end the process.
                if hasattr(os, "posix_fallocate"):
                    os.posix_fallocate(file.fileno(), 0, size)
                return np.memmap(file, dtype, "r+", shape=shape)
        except OSError as error:
            raise OutputError(
                f"{self.folder}: no room for a working copy of {size:,} bytes ({error.strerror or error})"
            ) from error

    def joined(self, pieces: Iterable[tuple[NDArray[Any], ...]], dtypes: Sequence[DTypeLike]) -> list[NDArray[Any]]:
        """Return the arrays that tuples of pieces make one behind the other; in a folder, they are never in memory.

        Parameters
        ----------
        pieces : iterable of tuples of arrays
            One-dimensional pieces, one per array; read once.
        dtypes : sequence of types
            Type of each array.

        Returns
        -------
        list of ndarray
        """
        kinds = [np.dtype(dtype) for dtype in dtypes]
        if self.folder is None:
            columns = list(zip(*pieces, strict=True)) or [()] * len(kinds)
            return [np.concatenate([np.empty(0, kind), *column]) for kind, column in zip(kinds, columns, strict=True)]
        files = [_File(self.folder, kind) for kind in kinds]
        for piece in pieces:
            for file, part, kind in zip(files, piece, kinds, strict=True):
                file.write(np.ascontiguousarray(part, kind).data)
        return [file.mapped() for file in files]

    def growing(self, dtype: DTypeLike) -> Growing:
        """Return an empty array that grows at its end; in a folder, little of it is ever in memory."""
        return Growing(np.dtype(dtype), self.folder)

    def keep(self, array: NDArray[Any]) -> NDArray[Any]:
        """Return a read-only array with the same content: this one, or a copy in a file."""
        if self.folder is None or array.nbytes < _LEAST:
            return read_only(array)
        copy = self.zeros(array.shape, array.dtype)
        copy[...] = array
        return read_only(copy)


class Growing:
    """A one-dimensional array that grows at its end, as `Workspace.growing` makes it.

    Parameters
    ----------
    dtype : numpy.dtype
        Type of the items: uint8, int32, int64 or float32.
    folder : Path or None
        Folder for the file that takes what is more than a few megabytes.
    """

    def __init__(self, dtype: np.dtype[Any], folder: Path | None) -> None:
        self.dtype, self._folder = dtype, folder
        self._held: array[Any] = array(_CODES[dtype])
        self._most = _HELD // dtype.itemsize
        self._file: _File | None = None
        self._n_written = 0

    def __len__(self) -> int:
        return self._n_written + len(self._held)

    def append(self, item: float) -> None:
        """Add one item."""
        self._held.append(item)
        self._spill()

    def extend(self, items: Iterable[float]) -> None:
        """Add a few items."""
        self._held.extend(items)
        self._spill()

    def extend_bytes(self, content: Any) -> None:
        """Add the items in a buffer, such as bytes or the data of an array of the same type."""
        view = memoryview(content)
        if view.nbytes:  # nothing cannot be cast
            self._held.frombytes(view.cast("B"))
            self._spill()

    def _spill(self) -> None:
        if len(self._held) < self._most or self._folder is None:
            return
        self._file = self._file or _File(self._folder, self.dtype)
        self._file.write(memoryview(self._held))
        self._n_written += len(self._held)
        self._held = array(self._held.typecode)

    def array(self) -> NDArray[Any]:
        """Return the array, without a copy of what is in memory; nothing may be added afterwards."""
        if self._file is None:
            return np.frombuffer(self._held, self.dtype) if self._held else np.empty(0, self.dtype)
        self._file.write(memoryview(self._held))
        return self._file.mapped()


class _File:
    """A file without a name, which is written once and then mapped."""

    def __init__(self, folder: Path, dtype: np.dtype[Any]) -> None:
        self._folder, self._dtype = folder, dtype
        with self._room():
            self._file: IO[bytes] = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 - closed by `mapped`, or below
        weakref.finalize(self, _close, self._file)  # after an error

    def write(self, content: memoryview[Any]) -> None:
        with self._room():
            self._file.write(content)

    def mapped(self) -> NDArray[Any]:
        """Return what was written."""
        with self._room(), self._file as file:
            file.flush()
            size = file.tell() // self._dtype.itemsize
            if not size:  # nothing cannot be mapped
                return np.empty(0, self._dtype)
            return np.memmap(file, self._dtype, "r", shape=(size,))

    @contextmanager
    def _room(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise OutputError(f"{self._folder}: no room for a working copy ({error.strerror or error})") from error


def _close(file: IO[bytes]) -> None:
    with suppress(OSError):  # what did not fit is written once more
        file.close()
