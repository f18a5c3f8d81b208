"""The saved form of a fitted object: plain JSON values and named arrays, nothing else."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from longtail.core.check_arrays import Types, check_array, check_starts
from longtail.errors import ModelError

Array = NDArray[Any]
_MOST = 1 << 48  # of whatever a model counts: no memory holds as many


@dataclass
class State:
    """JSON values and arrays by name; the state of a part is nested under a prefix, e.g. `model/weights.data`.

    Parameters
    ----------
    values : dict
        JSON values.
    arrays : dict of str to ndarray
        Arrays.
    """

    values: dict[str, Any] = field(default_factory=dict)
    arrays: dict[str, Array] = field(default_factory=dict)

    def put_csr(self, name: str, matrix: sparse.csr_matrix) -> None:
        """Add a canonical CSR matrix (sorted indices, no duplicates)."""
        self.values[f"{name}.shape"] = [int(n) for n in matrix.shape]
        self.arrays[f"{name}.data"] = matrix.data
        self.arrays[f"{name}.indices"] = matrix.indices
        self.arrays[f"{name}.indptr"] = matrix.indptr

    def get_csr(
        self,
        name: str,
        shape: tuple[int | None, int | None] = (None, None),
        *,
        index_types: Types = np.int32,
    ) -> sparse.csr_matrix:
        """Return a matrix that `put_csr` added; its arrays are not copied.

        Types, shapes and row starts are checked here. Column numbers are not, which would read them all: before a
        kernel indexes by them, call `check_columns`.

        Parameters
        ----------
        name : str
            Name of the matrix.
        shape : tuple of int or None, default (None, None)
            Rows and columns that it must have; None for any number.
        index_types : type or tuple of types, default np.int32
            Types that its column numbers may have; kernels take no other than the default.

        Returns
        -------
        csr_matrix

        Raises
        ------
        ModelError
            If it is missing, or something else is saved under its name.
        """
        found = self.values.get(f"{name}.shape")
        if not isinstance(found, list) or len(found) != 2 or not all(_is_whole(n) and n >= 0 for n in found):
            raise ModelError(f"{name}.shape is {found!r}, but must be two whole numbers")
        if any(n is not None and n != m for n, m in zip(shape, found, strict=True)):
            wanted = ", ".join("any" if n is None else str(n) for n in shape)
            raise ModelError(f"the matrix {name} has shape {tuple(found)}, but must have ({wanted})")
        indices = self.array(f"{name}.indices", index_types, (None,))
        indptr = self.array(f"{name}.indptr", (np.int32, np.int64), (found[0] + 1,))
        check_starts(f"{name}.indptr", indptr, indices.size)
        data = self.array(f"{name}.data", np.float32, (indices.size,))
        matrix = sparse.csr_matrix((data, indices, indptr), shape=tuple(found), copy=False)
        # Only canonical matrices are written; without this SciPy would check it in a pass over the mapped file.
        matrix.has_canonical_format = True
        return matrix

    def array(self, name: str, types: Types, shape: tuple[int | None, ...]) -> Array:
        """Return an array, or raise ModelError if it is missing or has another type or shape; see `check_array`."""
        if name not in self.arrays:
            raise ModelError(f"the array {name} is missing")
        return check_array(name, self.arrays[name], types, shape)

    def whole(self, name: str, least: int = 0) -> int:
        """Return a value that is a whole number of at least `least`, or raise ModelError."""
        value: Any = self.values.get(name)
        if not _is_whole(value) or value < least:
            raise ModelError(f"{name} is {value!r:.80}, but must be a whole number of at least {least}")
        if value > _MOST:
            raise ModelError(f"{name} is {value!r:.80}, but must be at most {_MOST}")
        return int(value)

    def count(self, name: str, least: int = 0) -> int:
        """Return a number of parts, each of which has an array, or raise ModelError."""
        value = self.whole(name, least)
        if value > len(self.arrays):
            raise ModelError(f"{name} is {value}, but there are {len(self.arrays)} arrays")
        return value

    def nest(self, name: str, part: State) -> None:
        """Add the state of a part under a name."""
        self.values[name] = part.values
        for key, array in part.arrays.items():
            self.arrays[f"{name}/{key}"] = array

    def part(self, name: str) -> State:
        """Return the state that `nest` added under a name."""
        if not isinstance(self.values.get(name), dict):
            raise ModelError(f"{name} is missing")
        prefix = f"{name}/"
        arrays = {key[len(prefix) :]: array for key, array in self.arrays.items() if key.startswith(prefix)}
        return State(self.values[name], arrays)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def as_bytes(strings: list[str]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return strings as one UTF-8 buffer and its n + 1 offsets, the form in which arrays store names and texts."""
    encoded = [s.encode("utf-8") for s in strings]
    offsets = np.zeros(len(encoded) + 1, dtype=np.int64)
    np.cumsum([len(e) for e in encoded], out=offsets[1:])
    return np.frombuffer(b"".join(encoded), dtype=np.uint8), offsets


def from_bytes(buffer: NDArray[np.uint8], offsets: NDArray[np.int64]) -> list[str]:
    """Return the strings that `as_bytes` packed."""
    check_array("of bytes", buffer, np.uint8, (None,))
    check_starts("of offsets", check_array("of offsets", offsets, np.int64, (None,)), buffer.size)
    data = buffer.tobytes()
    bounds = offsets.tolist()
    return [data[a:b].decode("utf-8") for a, b in pairwise(bounds)]
