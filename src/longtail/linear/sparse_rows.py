"""Loops over the entries of a sparse row, in the form that compiles to fast code.

Positions are unsigned, because Numba wraps negative ones around, which it checks at each access. A sum has four parts,
because an addition waits for the one before it: of LLVM's own vectors (64 entries at a time) short rows use none.
"""

from __future__ import annotations

import numpy as np

from longtail.core.compiled import njit

_ONE, _TWO, _THREE, _FOUR = np.uint64(1), np.uint64(2), np.uint64(3), np.uint64(4)


@njit(cache=True, nogil=True, inline="always")
def entries(ptr, row):
    """Return the positions of a row's entries."""
    return range(np.uint64(ptr[row]), np.uint64(ptr[row + 1]))


@njit(cache=True, nogil=True, fastmath={"contract", "nsz"}, inline="always")
def row_dot(ptr, columns, values, row, w):
    """Return the sum of w[columns[p]] * values[p] over the entries of a row."""
    p, end = np.uint64(ptr[row]), np.uint64(ptr[row + 1])
    first = second = third = fourth = np.float32(0)
    while p + _THREE < end:
        first += w[columns[p]] * values[p]
        second += w[columns[p + _ONE]] * values[p + _ONE]
        third += w[columns[p + _TWO]] * values[p + _TWO]
        fourth += w[columns[p + _THREE]] * values[p + _THREE]
        p += _FOUR
    while p < end:
        first += w[columns[p]] * values[p]
        p += _ONE
    return (first + second) + (third + fourth)


@njit(cache=True, nogil=True, fastmath={"contract"}, inline="always")
def add_row(ptr, columns, values, row, step, w):
    """Add step * values[p] to w[columns[p]] for the entries of a row."""
    for p in entries(ptr, row):
        w[columns[p]] += step * values[p]
