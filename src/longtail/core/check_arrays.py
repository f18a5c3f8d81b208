"""Checks of loaded arrays: what a kernel will index by must be inside the arrays that it indexes.

A model directory may come from anybody, and its digests have no key. Compiled kernels do not check bounds, so that one
wrong number could read or write memory at a place of somebody's choice. Types, shapes and row starts are checked when a
model is loaded (`State.array`, `State.get_csr`), which takes a glance at each array; the numbers inside large arrays
are checked by `Estimator._check_learned`, in one pass over them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from longtail.errors import ModelError

Array = NDArray[Any]
Types = type | tuple[type, ...]
_PIECE = 1 << 17  # numbers that stay in the cache between the search for the least and that for the largest


def check_array(name: str, array: Array, types: Types, shape: tuple[int | None, ...]) -> Array:
    """Return an array of a saved model, or raise ModelError unless it has one of these types and this shape.

    Parameters
    ----------
    name : str
        Name of the array, for messages.
    array : ndarray
        The array.
    types : type or tuple of types
        NumPy types, e.g. `np.int32`.
    shape : tuple of int or None
        Length of each dimension; None for any.

    Returns
    -------
    ndarray
        The array itself.
    """
    allowed = types if isinstance(types, tuple) else (types,)
    if array.dtype not in [np.dtype(one) for one in allowed]:
        names = " or ".join(np.dtype(one).name for one in allowed)
        raise ModelError(f"the array {name} is of type {array.dtype}, but must be {names}")
    if array.ndim != len(shape) or any(n is not None and n != m for n, m in zip(shape, array.shape, strict=True)):
        wanted = ", ".join("any" if n is None else str(n) for n in shape)
        raise ModelError(f"the array {name} has shape {array.shape}, but must have ({wanted})")
    # Compiled code looks at one bit of a truth value, NumPy at all eight: any other byte would mean two things.
    if array.dtype == np.bool_ and array.size and array.view(np.uint8).max() > 1:
        raise ModelError(f"the array {name} contains bytes that are neither true nor false")
    return array


def check_within(name: str, array: Array, least: int, end: int) -> None:
    """Raise ModelError unless all numbers of an integer array are at least `least` and below `end`."""
    if not array.size:
        return
    # One pass: as unsigned numbers, negative ones are the largest.
    if least == 0 and int(array.view(f"u{array.itemsize}").max()) < min(end, int(np.iinfo(array.dtype).max) + 1):
        return
    low, high = _extremes(array)
    if low < least or high >= end:
        wrong = int(low if low < least else high)
        raise ModelError(f"the array {name} contains {wrong}, but its numbers must be from {least} to {end - 1}")


def _extremes(array: Array) -> tuple[Any, Any]:
    """Return the least and the largest number of an array, NaN if there is one; reads the array from memory once."""
    flat = array.reshape(-1)
    pieces = [flat[first : first + _PIECE] for first in range(0, flat.size, _PIECE)]
    both = np.array([(piece.min(), piece.max()) for piece in pieces])
    return both[:, 0].min(), both[:, 1].max()


def check_table(name: str, table: Array, end: int) -> None:
    """Raise ModelError unless a table has numbers below `end`, each at most once, and -1 where there is none."""
    check_within(name, table, -1, end)
    if np.bincount(table[table >= 0]).max(initial=0) > 1:
        raise ModelError(f"the array {name} contains a number twice")


def check_starts(name: str, starts: Array, end: int) -> None:
    """Raise ModelError unless the numbers rise from 0 to `end`, as the row starts of a sparse matrix do."""
    if not starts.size or starts[0] != 0 or starts[-1] != end or (starts[1:] < starts[:-1]).any():
        raise ModelError(f"the array {name} must rise from 0 to {end}")


def check_columns(name: str, matrix: sparse.csr_matrix) -> None:
    """Raise ModelError unless the column numbers of a matrix from `State.get_csr` are below its number of columns."""
    check_within(f"{name}.indices", matrix.indices, 0, matrix.shape[1])


def check_finite(name: str, array: Array) -> None:
    """Raise ModelError if a number is NaN or infinite."""
    if not np.isfinite(array).all():
        raise ModelError(f"the array {name} contains numbers that are not finite")


def check_above_zero(name: str, array: Array) -> None:
    """Raise ModelError unless all numbers are finite and above 0."""
    if not array.size:
        return
    low, high = _extremes(array)
    if not (low > 0 and high < np.inf):
        check_finite(name, array)
        raise ModelError(f"the array {name} contains {low}, but its numbers must be above 0")
