"""The array files of a directory: written in place, opened only if they are regular files inside, mapped or read."""

from __future__ import annotations

import hashlib
import json
import math
import os
import stat
import struct
from io import BufferedReader
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError

from longtail.core.check_arrays import Array
from longtail.errors import ModelError, first_line

_DTYPES = {
    "BOOL": np.bool_, "U8": np.uint8, "I8": np.int8, "U16": np.uint16, "I16": np.int16, "F16": np.float16,
    "U32": np.uint32, "I32": np.int32, "F32": np.float32, "U64": np.uint64, "I64": np.int64, "F64": np.float64,
}  # fmt: skip
_NAMES = {np.dtype(kind): name for name, kind in _DTYPES.items()}
# A link is resolved before; a pipe must not wait for a writer.
_FLAGS = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)


def in_files(arrays: dict[str, Array], most: int) -> list[dict[str, Array]]:
    """Divide arrays, in their order, among files of at most so many bytes; a larger array has a file of its own."""
    files: list[dict[str, Array]] = [{}]
    left = most
    for name, array in arrays.items():
        if files[-1] and array.nbytes > left:
            files.append({})
            left = most
        files[-1][name] = array
        left -= array.nbytes
    return files


def write_arrays(file: Path, arrays: dict[str, Array]) -> tuple[int, str]:
    """Write a safetensors file in place and return its size and SHA-256.

    The package's own writer would write another file and rename it: a file without our lock, left by a kill.
    """
    names = sorted(arrays, key=lambda name: (-arrays[name].dtype.itemsize, name))  # every array starts aligned
    entries, end = {}, 0
    for name in names:
        array = arrays[name]
        if array.dtype not in _NAMES:
            raise SafetensorError(f"the array {name} has the unsupported type {array.dtype}")
        start, end = end, end + array.nbytes
        entries[name] = {"dtype": _NAMES[array.dtype], "shape": list(array.shape), "data_offsets": [start, end]}
    header = json.dumps(entries, ensure_ascii=False, separators=(",", ":")).encode()
    header += b" " * (-len(header) % 8)
    contents = (np.ascontiguousarray(arrays[name]).data for name in names)
    pieces: list[bytes | memoryview[Any]] = [struct.pack("<Q", len(header)), header, *contents]
    digest, size = hashlib.sha256(), 0
    with open(file, "wb") as handle:
        for piece in pieces:
            handle.write(piece)
            digest.update(piece)
            size += len(piece) if isinstance(piece, bytes) else piece.nbytes
        handle.flush()
        os.fsync(handle.fileno())
    return size, digest.hexdigest()


def open_inside(folder: Path, name: str) -> BufferedReader:
    """Open a regular file of a directory that somebody else may have written.

    Links may lead elsewhere in the directory (Kubernetes mounts files that way), but not out of it.

    Parameters
    ----------
    folder : Path
        The directory.
    name : str
        Name of the file, without a path.

    Returns
    -------
    file
        Open for reading bytes.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ModelError
        If it is a pipe, a device or a folder, or a link that leads out of the directory.
    """
    file = folder / name
    resolved = os.path.realpath(file)
    if os.path.realpath(folder) not in map(str, Path(resolved).parents):
        raise ModelError(f"{file} is a link that leads out of the directory; copy the file itself")
    try:
        opened = open(resolved, "rb", opener=lambda name, flags: os.open(name, flags | _FLAGS))  # noqa: SIM115 - returned
    except IsADirectoryError as error:
        raise ModelError(f"{file} is a folder, not a file") from error
    if not stat.S_ISREG(os.fstat(opened.fileno()).st_mode):
        opened.close()
        raise ModelError(f"{file} is not a regular file")
    return opened


def read_arrays(file: BufferedReader, *, mmap: bool) -> dict[str, Array]:
    """Return the arrays of an open safetensors file by name, all read-only.

    safetensors' own reader copies every tensor for NumPy, but the format is simple enough to map: eight bytes with the
    length of the header, a JSON header with dtype, shape and byte range of each tensor, then the bytes.

    Parameters
    ----------
    file : file
        Open for reading bytes.
    mmap : bool
        Map the file; False reads it into memory.

    Returns
    -------
    dict of str to ndarray

    Raises
    ------
    ModelError
        If the file is not a safetensors file, or describes arrays that it does not contain.
    """
    try:
        size = os.fstat(file.fileno()).st_size
        file.seek(0)
        (length,) = struct.unpack("<Q", file.read(8))
        if length > size - 8:
            raise ValueError(f"its header has {length} bytes, but the file has {size}")
        header = json.loads(file.read(length))
        content = np.memmap(file, dtype=np.uint8, mode="r") if mmap else _in_memory(file, size)
        return {
            str(name): _array(entry, content, 8 + length) for name, entry in header.items() if name != "__metadata__"
        }
    except (struct.error, ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise ModelError(f"{file.name} is not a readable safetensors file ({first_line(error)})") from error


def _in_memory(file: BufferedReader, size: int) -> Array:
    content = np.empty(size, np.uint8)
    file.seek(0)
    if file.readinto(content.data) != size:
        raise ValueError("it was cut short while it was read")
    content.flags.writeable = False
    return content


def _array(entry: dict[str, Any], content: Array, first: int) -> Array:
    """Return the array that an entry of the header describes, as a view of the file, which begins at byte `first`."""
    shape, dtype = entry["shape"], np.dtype(_DTYPES[entry["dtype"]])
    start, end = entry["data_offsets"]
    if not all(isinstance(n, int) and not isinstance(n, bool) and n >= 0 for n in (*shape, start, end)):
        raise ValueError("a shape or an offset is not a whole number of at least 0")
    if math.prod(shape) * dtype.itemsize != end - start or first + end > content.size:
        raise ValueError("an array has another size than its shape needs, or ends beyond the file")
    if (first + start) % dtype.itemsize:
        raise ValueError("an array is not aligned")
    # Not a view of `content`: SciPy copies an array whose base has many more elements than the array itself.
    array: Array = np.ndarray(tuple(shape), dtype, buffer=content, offset=first + start)
    return array


def describe(error: BaseException) -> str:
    """Return what went wrong with a file in a few words."""
    if isinstance(error, MemoryError):
        return "not enough memory"
    return getattr(error, "strerror", None) or first_line(error)
