"""What a fitted object is made of when it is written down: plain JSON values and named arrays, nothing else."""

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
    """JSON values and arrays by name; a part's state nests under a prefix, e.g. `model/weights.data`."""

    values: dict[str, Any] = field(default_factory=dict)
    arrays: dict[str, Array] = field(default_factory=dict)

    def put_csr(self, name: str, matrix: sparse.csr_matrix) -> None:
        self.values[f"{name}.shape"] = [int(n) for n in matrix.shape]
        self.arrays[f"{name}.data"] = matrix.data
        self.arrays[f"{name}.indices"] = matrix.indices
        self.arrays[f"{name}.indptr"] = matrix.indptr

    def get_csr(self, name: str) -> sparse.csr_matrix:
        parts = tuple(self.arrays[f"{name}.{part}"] for part in ("data", "indices", "indptr"))
        matrix = sparse.csr_matrix(parts, shape=tuple(self.values[f"{name}.shape"]), copy=False)
        # Only canonical matrices are written; saying so spares SciPy a pass over the mapped file.
        matrix.has_canonical_format = True
        return matrix

    def nest(self, name: str, part: State) -> None:
        self.values[name] = part.values
        for key, array in part.arrays.items():
            self.arrays[f"{name}/{key}"] = array

    def part(self, name: str) -> State:
        prefix = f"{name}/"
        arrays = {key[len(prefix) :]: array for key, array in self.arrays.items() if key.startswith(prefix)}
        return State(self.values[name], arrays)


def as_bytes(strings: list[str]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Strings as one UTF-8 buffer and its n + 1 offsets: how names and texts are kept in arrays."""
    encoded = [s.encode("utf-8") for s in strings]
    offsets = np.zeros(len(encoded) + 1, dtype=np.int64)
    np.cumsum([len(e) for e in encoded], out=offsets[1:])
    return np.frombuffer(b"".join(encoded), dtype=np.uint8), offsets


def from_bytes(buffer: NDArray[np.uint8], offsets: NDArray[np.int64]) -> list[str]:
    data = buffer.tobytes()
    bounds = offsets.tolist()
    return [data[a:b].decode("utf-8") for a, b in pairwise(bounds)]
