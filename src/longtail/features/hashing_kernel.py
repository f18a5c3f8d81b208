"""MurmurHash3 of many strings in compiled code: the fast twin of `features.hashing.murmur3`."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from longtail.core.compiled import njit


def murmur3_many(buffer: NDArray[np.uint8], offsets: NDArray[np.int64]) -> NDArray[np.uint32]:
    """Return the hash of each string in a buffer, as `core.state.as_bytes` packs them.

    Parameters
    ----------
    buffer : array of uint8
        All strings as UTF-8.
    offsets : (n + 1,) array of int64
        Where each one begins.

    Returns
    -------
    (n,) array of uint32
    """
    hashes = np.empty(offsets.size - 1, np.uint32)
    _murmur3(buffer, offsets, hashes)
    return hashes


@njit(cache=True, nogil=True)
def _murmur3(buffer, offsets, hashes):
    for i in range(hashes.shape[0]):
        start, stop = offsets[i], offsets[i + 1]
        h = np.uint32(0)
        p = start
        while p + 4 <= stop:
            k = np.uint32(buffer[p]) | np.uint32(buffer[p + 1]) << np.uint32(8)
            k |= np.uint32(buffer[p + 2]) << np.uint32(16) | np.uint32(buffer[p + 3]) << np.uint32(24)
            h = np.uint32(h ^ _mixed(np.uint32(k)))
            h = np.uint32(np.uint32(_rotated(h, 13) * np.uint32(5)) + np.uint32(0xE6546B64))
            p += 4
        if p < stop:
            k = np.uint32(0)
            for q in range(stop - 1, p - 1, -1):
                k = np.uint32(k << np.uint32(8)) | np.uint32(buffer[q])
            h = np.uint32(h ^ _mixed(np.uint32(k)))
        h = np.uint32(h ^ np.uint32(stop - start))
        h = np.uint32(np.uint32(h ^ (h >> np.uint32(16))) * np.uint32(0x85EBCA6B))
        h = np.uint32(np.uint32(h ^ (h >> np.uint32(13))) * np.uint32(0xC2B2AE35))
        hashes[i] = np.uint32(h ^ (h >> np.uint32(16)))


@njit(cache=True, nogil=True, inline="always")
def _mixed(k):
    return np.uint32(_rotated(np.uint32(k * np.uint32(0xCC9E2D51)), 15) * np.uint32(0x1B873593))


@njit(cache=True, nogil=True, inline="always")
def _rotated(value, bits):
    return np.uint32(value << np.uint32(bits)) | np.uint32(value >> np.uint32(32 - bits))
