"""The saved form of a fitted object: plain JSON values and named arrays, nothing else."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

Array = NDArray[Any]


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

    def get_csr(self, name: str) -> sparse.csr_matrix:
        """Return a matrix that `put_csr` added; its arrays are not copied."""
        parts = tuple(self.arrays[f"{name}.{part}"] for part in ("data", "indices", "indptr"))
        matrix = sparse.csr_matrix(parts, shape=tuple(self.values[f"{name}.shape"]), copy=False)
        # Only canonical matrices are written; without this SciPy would check it in a pass over the mapped file.
        matrix.has_canonical_format = True
        return matrix

    def nest(self, name: str, part: State) -> None:
        """Add the state of a part under a name."""
        self.values[name] = part.values
        for key, array in part.arrays.items():
            self.arrays[f"{name}/{key}"] = array

    def part(self, name: str) -> State:
        """Return the state that `nest` added under a name."""
        prefix = f"{name}/"
        arrays = {key[len(prefix) :]: array for key, array in self.arrays.items() if key.startswith(prefix)}
        return State(self.values[name], arrays)


def as_bytes(strings: list[str]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return strings as one UTF-8 buffer and its n + 1 offsets, the form in which arrays store names and texts."""
    encoded = [s.encode("utf-8") for s in strings]
    offsets = np.zeros(len(encoded) + 1, dtype=np.int64)
    np.cumsum([len(e) for e in encoded], out=offsets[1:])
    return np.frombuffer(b"".join(encoded), dtype=np.uint8), offsets


def from_bytes(buffer: NDArray[np.uint8], offsets: NDArray[np.int64]) -> list[str]:
    """Return the strings that `as_bytes` packed."""
    data = buffer.tobytes()
    bounds = offsets.tolist()
    return [data[a:b].decode("utf-8") for a, b in pairwise(bounds)]
