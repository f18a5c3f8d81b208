"""Altered copies of points: input dropout and input swap, on sparse rows and on the words of texts.

"Improving tail label prediction for extreme multi-label learning", section 3.3. Neither changes the labels. A copy
depends only on a seed, the point and the number of the copy, so copies can be made on demand, in any order.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from longtail.core.compiled import njit

_IN_MEMORY = 2**28  # bytes; larger matrices of copies are written to a temporary file and memory-mapped


@dataclass(frozen=True)
class Alteration:
    """How copies differ from their points. A copy keeps at least one feature, and the Euclidean length of its row.

    Parameters
    ----------
    keep : float
        Probability that a feature (or a word) stays.
    swaps : float
        Pairs of features whose values (or words whose places) are swapped, as a share of the features (words).
    seed : int
        Seed of the copies.
    """

    keep: float
    swaps: float
    seed: int


def with_altered_copies(X: Any, rows: NDArray[np.intp], n_aug: int, alteration: Alteration) -> Any:
    """Return the points, followed by `n_aug` altered copies of those in `rows`.

    Parameters
    ----------
    X : csr_matrix or sequence of str
        Points.
    rows : ndarray of int
        Points to copy.
    n_aug : int
        Copies per point.
    alteration : Alteration
        How copies differ from their points.

    Returns
    -------
    csr_matrix or AlteredTexts
        Texts are altered on demand.
    """
    if sparse.issparse(X):
        return _with_altered_rows(X, rows, n_aug, alteration)
    return AlteredTexts(X, rows, n_aug, alteration)


class AlteredTexts(Sequence[str]):
    """Texts, followed by altered copies of some; a copy is made on demand and not stored."""

    def __init__(self, texts: Sequence[str], rows: NDArray[np.intp], n_aug: int, alteration: Alteration) -> None:
        self.texts, self.rows, self.n_aug, self.alteration = texts, rows, n_aug, alteration

    def __len__(self) -> int:
        return len(self.texts) + self.rows.size * self.n_aug

    @overload
    def __getitem__(self, index: int) -> str: ...

    @overload
    def __getitem__(self, index: slice) -> list[str]: ...

    def __getitem__(self, index: int | slice) -> str | list[str]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        place = range(len(self))[index]
        if place < len(self.texts):
            return self.texts[place]
        copy, number = divmod(place - len(self.texts), self.rows.size)
        row = int(self.rows[number])
        return self._altered(self.texts[row], row, copy)

    def __iter__(self) -> Iterator[str]:
        return (self[i] for i in range(len(self)))

    def subset(self, rows: NDArray[np.intp]) -> list[str]:
        """Return the texts at these places; see `core.unseen.rows_of`."""
        return [self[int(row)] for row in rows]

    def _altered(self, text: str, row: int, copy: int) -> str:
        rng = np.random.default_rng([self.alteration.seed, row, copy])
        words = np.array(text.split(), dtype=object)
        if words.size == 0:
            return text
        kept = rng.random(words.size) < self.alteration.keep
        kept[rng.integers(words.size)] |= not kept.any()
        words = words[kept]
        for i, j in rng.integers(words.size, size=(round(self.alteration.swaps * words.size), 2)):
            words[i], words[j] = words[j], words[i]
        return " ".join(words)


def _with_altered_rows(
    X: sparse.csr_matrix, rows: NDArray[np.intp], n_aug: int, alteration: Alteration
) -> sparse.csr_matrix:
    """Return the matrix of points and copies; copies are written straight into it, so memory holds nothing twice."""
    x_ptr = X.indptr.astype(np.int64)
    seeds = np.random.SeedSequence(alteration.seed).generate_state(max(n_aug, 1), np.uint64)[:n_aug]
    lengths = np.empty(X.shape[0] + rows.size * n_aug, np.int64)
    lengths[: X.shape[0]] = np.diff(x_ptr)
    copies = [slice(X.shape[0] + c * rows.size, X.shape[0] + (c + 1) * rows.size) for c in range(n_aug)]
    for seed, here in zip(seeds, copies, strict=True):
        _count_kept(x_ptr, rows, seed, alteration.keep, lengths[here])
    ends = np.concatenate([[0], np.cumsum(lengths)])
    indices, data = _array(int(ends[-1]), np.int32), _array(int(ends[-1]), np.float32)
    indices[: X.nnz], data[: X.nnz] = X.indices, X.data
    for seed, here in zip(seeds, copies, strict=True):
        places = ends[here.start : here.stop + 1]
        _write_rows(x_ptr, X.indices, X.data, rows, places, seed, alteration.keep, alteration.swaps, indices, data)
    narrow = ends.astype(np.int32) if ends[-1] <= np.iinfo(np.int32).max else ends
    result = sparse.csr_matrix((data, indices, narrow), shape=(lengths.size, X.shape[1]), copy=False)
    result.has_canonical_format = True  # the columns of a row keep their order
    return result


def _array(size: int, dtype: Any) -> NDArray[Any]:
    """Return an empty array: in memory or, if large, in a temporary file that is deleted with the array."""
    if size * np.dtype(dtype).itemsize <= _IN_MEMORY:
        return np.empty(size, dtype)
    with tempfile.TemporaryFile() as file:
        file.truncate(size * np.dtype(dtype).itemsize)
        return np.memmap(file, dtype, mode="r+", shape=(size,))


@njit(cache=True, nogil=True, inline="always")
def _next(state):
    """Return the next state of a splitmix64 generator and its random number in [0, 1)."""
    state += np.uint64(0x9E3779B97F4A7C15)
    z = state
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z = z ^ (z >> np.uint64(31))
    return state, np.float64(z >> np.uint64(11)) / 9007199254740992.0


@njit(cache=True, nogil=True)
def _choose(seed, row, keep, kept):
    """Mark the features that stay; return the generator's next state and their number."""
    state = seed ^ (np.uint64(row + 1) * np.uint64(0xD6E8FEB86659FD93))
    n_kept = 0
    for j in range(kept.shape[0]):
        state, u = _next(state)
        kept[j] = u < keep
        n_kept += kept[j]
    if n_kept == 0 and kept.shape[0] > 0:
        state, u = _next(state)
        kept[int(u * kept.shape[0])] = True
        n_kept = 1
    return state, n_kept


@njit(cache=True, nogil=True)
def _count_kept(x_ptr, rows, seed, keep, lengths):
    for i in range(rows.shape[0]):
        kept = np.empty(x_ptr[rows[i] + 1] - x_ptr[rows[i]], np.bool_)
        lengths[i] = _choose(seed, rows[i], keep, kept)[1]


@njit(cache=True, nogil=True)
def _write_rows(x_ptr, x_indices, x_data, rows, places, seed, keep, swaps, indices, data):
    for i in range(rows.shape[0]):
        first, size = x_ptr[rows[i]], x_ptr[rows[i] + 1] - x_ptr[rows[i]]
        kept = np.empty(size, np.bool_)
        state, n_kept = _choose(seed, rows[i], keep, kept)
        before, after, place = 0.0, 0.0, places[i]
        for j in range(size):
            before += x_data[first + j] ** 2
            if kept[j]:
                indices[place], data[place] = x_indices[first + j], x_data[first + j]
                after += x_data[first + j] ** 2
                place += 1
        for _ in range(round(swaps * n_kept)):
            state, u = _next(state)
            state, w = _next(state)
            a, b = places[i] + int(u * n_kept), places[i] + int(w * n_kept)
            data[a], data[b] = data[b], data[a]
        scale = np.sqrt(before / after) if after > 0 else 1.0
        for p in range(places[i], places[i + 1]):
            data[p] *= scale
