"""The weights that a node of a label tree has for one feature, as words of sixteen bits: a row.

A full row has one word per child. A shorter one has first the children that it has weights for, then the weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from longtail.core.compiled import njit

# Places that a search has for the margins of a node, at least: one for every number of one byte. Such numbers in a file
# of somebody's making may be of no child of their node, but they never lead out of the array.
MARGINS = 1 << 8


def packed_rows(
    starts: NDArray[np.integer[Any]],
    children: NDArray[np.integer[Any]],
    values: NDArray[np.int16],
    n_children: int,
) -> tuple[NDArray[np.int16], NDArray[np.uint32]]:
    """Return the words of a node's rows and where each begins; no starts if all rows are full.

    Parameters
    ----------
    starts : (rows + 1,) array of int
        Where the weights of each row begin.
    children : (n,) array of int
        Child of each weight, numbered within the node.
    values : (n,) array of int16
        The weights.
    n_children : int
        Number of children of the node.
    """
    lengths = np.diff(starts).astype(np.int64)
    sizes = np.minimum(lengths + -(-lengths * bytes_of_child(n_children) // values.itemsize), n_children)
    offsets = starts_of(sizes)
    n_bytes = values.itemsize * int(offsets[-1]) + 4 * offsets.size
    if values.itemsize * lengths.size * n_children <= n_bytes:
        offsets = n_children * np.arange(lengths.size + 1)
        n_bytes = 0
    words = np.zeros(int(offsets[-1]), values.dtype)
    _pack(starts, children, values, n_children, offsets, words, words.view(np.uint8))
    return words, offsets.astype(np.uint32) if n_bytes else np.empty(0, np.uint32)


@njit(cache=True, nogil=True)
def bytes_of_child(n_children):
    """Return how many bytes the number of a child takes in a row that is not full."""
    return 1 if n_children <= MARGINS else 2 if n_children <= 1 << 16 else 4


@njit(cache=True, nogil=True)
def _pack(starts, children, values, n_children, offsets, words, in_bytes):
    of_child, of_word = bytes_of_child(n_children), in_bytes.shape[0] // max(words.shape[0], 1)
    for r in range(offsets.shape[0] - 1):
        first, n = starts[r], starts[r + 1] - starts[r]
        at, end = offsets[r], offsets[r + 1]
        if end - at == n_children:
            for e in range(first, first + n):
                words[at + children[e]] = values[e]
            continue
        for e in range(n):
            for b in range(of_child):
                in_bytes[of_word * at + of_child * e + b] = (np.int64(children[first + e]) >> (8 * b)) & 255
            words[end - n + e] = values[first + e]


@njit(cache=True, nogil=True, inline="always")
def weights_of_row(size, of_child, of_word):
    """Return how many weights a row of `size` words has that is not full."""
    return size * of_word // (of_child + of_word)


@njit(cache=True, nogil=True, inline="always")
def child_in(in_bytes, at, e, of_child):
    """Return the number of the e-th child of a row whose bytes begin at `at`."""
    child = np.uint64(0)
    for b in range(of_child):
        child |= np.uint64(in_bytes[np.uint64(at + of_child * e + b)]) << np.uint64(8 * b)
    return child


def starts_of(sizes: Sequence[int] | NDArray[np.integer[Any]]) -> NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
