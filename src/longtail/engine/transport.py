"""What all parts of a task share, on its way to workers: large arrays travel once, each on its own.

Several tasks of one training share most of their arrays, such as the features of all points. So an object is pickled
without its large arrays, which go to Ray's object store when they are first met, and stay there as long as they exist.
Workers on one machine read the same copy. An array that is mapped from a file is not sent: workers map the file.
"""

from __future__ import annotations

import errno
import hashlib
import io
import math
import os
import pickle
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

LARGE = 1 << 20  # bytes
_PIECES, _PIECE = 16, 4096  # pieces of a mapped array that are compared, and bytes of each


class Sent:
    """Puts arrays into an object store, each once.

    Parameters
    ----------
    put : callable
        Stores an array and returns a reference to it.
    """

    def __init__(self, put: Callable[[NDArray[Any]], Any]) -> None:
        self._put = put
        self._references: dict[tuple[int, int], tuple[weakref.ref[NDArray[Any]], Any]] = {}

    def __call__(self, array: NDArray[Any]) -> Any:
        """Return the reference to the bytes of a contiguous array, which are stored if they are new."""
        owner, key = array, _memory(array)
        while isinstance(owner.base, np.ndarray):
            owner = owner.base
        known, reference = self._references.get(key, (None, None))
        if known is None or known() is not owner:  # the memory may be that of an array that is gone
            reference = self._put(array.reshape(-1).view(np.uint8))
            self._references[key] = weakref.ref(owner, lambda _: self._references.pop(key, None)), reference
        return reference


def pack(value: Any, sent: Callable[[NDArray[Any]], Any], pickler: type[pickle.Pickler]) -> tuple[bytes, list[Any]]:
    """Pickle an object without its large arrays.

    Parameters
    ----------
    value : object
        What to send.
    sent : callable
        Returns the reference to an array; see `Sent`.
    pickler : class
        Base of the pickler, e.g. that of cloudpickle.

    Returns
    -------
    tuple of bytes and list
        The rest of the object, and the references to its large arrays.
    """
    references: list[Any] = []
    places: dict[tuple[int, int], int] = {}

    class Packer(pickler):  # type: ignore[valid-type, misc]
        def persistent_id(self, item: Any) -> Any:
            if not isinstance(item, np.ndarray) or item.nbytes < LARGE or item.dtype.hasobject:
                return None
            if not item.flags.c_contiguous:
                return None
            if (file := _mapped_file(item)) is not None:
                return ("file", *file, item.dtype.str, item.shape, _sample(item))
            if _memory(item) not in places:
                places[_memory(item)] = len(references)
                references.append(sent(item))
            return "array", places[_memory(item)], item.dtype.str, item.shape

    buffer = io.BytesIO()
    Packer(buffer, protocol=5).dump(value)
    return buffer.getvalue(), references


def unpack(content: bytes, arrays: Sequence[NDArray[Any]]) -> Any:
    """Undo `pack`, given the bytes that the references stand for; what was a large array is read-only."""

    class Unpacker(pickle.Unpickler):
        def persistent_load(self, key: Any) -> NDArray[Any]:
            if key[0] == "array":
                _, place, dtype, shape = key
                return np.ndarray(shape, dtype, buffer=arrays[place])
            _, path, offset, dtype, shape, sample = key
            end = offset + math.prod(shape) * np.dtype(dtype).itemsize
            if os.path.isfile(path) and os.path.getsize(path) >= end:
                array = np.memmap(path, np.dtype(dtype), "r", offset, shape)
                if _sample(array) == sample:
                    return array
            raise FileNotFoundError(errno.ENOENT, "not there, or another file", path)

    return Unpacker(io.BytesIO(content)).load()


def _memory(array: NDArray[Any]) -> tuple[int, int]:
    """Return place and size of an array in memory: views of one array, read-only or of another type, have the same."""
    return int(array.ctypes.data), array.nbytes


def _sample(array: NDArray[Any]) -> bytes:
    """Return a digest of some pieces of an array: a file of the same name and size may be that of other data."""
    content = array.reshape(-1).view(np.uint8)
    starts = np.linspace(0, max(content.size - _PIECE, 0), _PIECES).astype(np.int64)
    return hashlib.sha256(b"".join(content[start : start + _PIECE].tobytes() for start in starts)).digest()


def _mapped_file(array: NDArray[Any]) -> tuple[str, int] | None:
    """Return the file that an array is mapped from, and the place in it; None if it is in memory."""
    base: Any = array
    while base is not None and not (isinstance(base, np.memmap) and base.filename is not None):
        base = getattr(base, "base", None)
    if base is None or base.mode != "r":
        return None
    root = base
    while isinstance(root.base, np.memmap):  # a view of the whole mapping, which knows its own place in the file
        root = root.base
    if not os.path.exists(str(root.filename)):  # a copy of remote data, which has no name any more
        return None
    return os.path.abspath(str(root.filename)), int(root.offset + array.ctypes.data - root.ctypes.data)
