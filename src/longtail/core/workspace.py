"""Where the large working copies of a training are: in memory, or in files that the system maps and may write back.

Such a file has no name, so that it ends with the process, however that ends.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from longtail.core.memory import huge_zeros, read_only
from longtail.errors import OutputError

_LEAST = 1 << 20  # bytes from which on an array gets a file


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
        try:
            with ExitStack() as stack:
                files = [stack.enter_context(tempfile.TemporaryFile(dir=self.folder)) for _ in kinds]
                for piece in pieces:
                    for file, part, kind in zip(files, piece, kinds, strict=True):
                        file.write(np.ascontiguousarray(part, kind).data)
                return [_mapped(file, kind) for file, kind in zip(files, kinds, strict=True)]
        except OSError as error:
            raise OutputError(f"{self.folder}: no room for a working copy ({error.strerror or error})") from error

    def keep(self, array: NDArray[Any]) -> NDArray[Any]:
        """Return a read-only array with the same content: this one, or a copy in a file."""
        if self.folder is None or array.nbytes < _LEAST:
            return read_only(array)
        copy = self.zeros(array.shape, array.dtype)
        copy[...] = array
        return read_only(copy)


def _mapped(file: IO[bytes], dtype: np.dtype[Any]) -> NDArray[Any]:
    file.flush()
    size = file.tell() // dtype.itemsize
    return np.memmap(file, dtype, "r", shape=(size,)) if size else np.empty(0, dtype)  # nothing cannot be mapped
