"""Columns of terms by their hash, as scikit-learn's `HashingVectorizer` numbers them: MurmurHash3 with 32 bits, seed 0.

Few terms are hashed in plain Python, which loads nothing; many by a compiled kernel. Both give the same numbers.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from longtail.core.state import as_bytes

MANY_TERMS = 20_000  # from here on the kernel is worth loading
_MASK = 0xFFFFFFFF
_C1, _C2, _C3 = 0xCC9E2D51, 0x1B873593, 0xE6546B64
_F1, _F2 = 0x85EBCA6B, 0xC2B2AE35


def buckets_of(terms: Sequence[str], n_buckets: int) -> NDArray[np.int32]:
    """Return the column of each term.

    Parameters
    ----------
    terms : sequence of str
        Terms.
    n_buckets : int
        Number of columns, up to 2**31 - 1.

    Returns
    -------
    array of int32
    """
    if len(terms) < MANY_TERMS:
        hashes = np.fromiter((murmur3(term.encode()) for term in terms), np.uint32, len(terms))
    else:
        from longtail.features.hashing_kernel import murmur3_many  # here: it loads Numba

        hashes = murmur3_many(*as_bytes(list(terms)))
    signed = np.abs(hashes.view(np.int32).astype(np.int64))  # 64 bits: the lowest number of 32 has no absolute value
    buckets: NDArray[np.int32] = (signed % n_buckets).astype(np.int32)
    return buckets


def murmur3(data: bytes) -> int:
    """Return MurmurHash3 (x86, 32 bits, seed 0) of bytes; public domain, by Austin Appleby."""
    h, size = 0, len(data)
    whole = size - size % 4
    for i in range(0, whole, 4):
        h ^= _mixed(int.from_bytes(data[i : i + 4], "little"))
        h = _rotated(h, 13) * 5 + _C3 & _MASK
    if whole < size:
        h ^= _mixed(int.from_bytes(data[whole:], "little"))
    h ^= size
    h = (h ^ h >> 16) * _F1 & _MASK
    h = (h ^ h >> 13) * _F2 & _MASK
    return h ^ h >> 16


def _mixed(k: int) -> int:
    return _rotated(k * _C1 & _MASK, 15) * _C2 & _MASK


def _rotated(value: int, bits: int) -> int:
    return (value << bits | value >> 32 - bits) & _MASK
