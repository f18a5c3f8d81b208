"""Random orders of points that still read memory nearly in sequence."""

from __future__ import annotations

import numpy as np

from longtail.core.compiled import njit

_CHUNK = 32  # consecutive points that stay together when a pass is shuffled, so that memory is read in order


@njit(cache=True, nogil=True)
def shuffled(points, state):
    """Return the points in a new random order: shuffle chunks of neighbours, and mix the points inside each chunk.

    A new order per pass makes coordinate descent converge fast: a fixed order needs many times as many passes
    (docs/dismec.md). Thanks to the chunks X and the dual variables are read nearly in order, which large data needs.
    A whole chunk is taken by a random odd stride from a random start (512 orders for one random number): a real shuffle
    of it costs four times as much and helps no more. The last chunk, and so a short list of points, is shuffled.
    """
    n = points.shape[0]
    n_chunks = (n + _CHUNK - 1) // _CHUNK
    chunks = np.arange(n_chunks)
    shuffle(chunks, n_chunks, state)
    order = np.empty_like(points)
    filled = 0
    for chunk in chunks:
        first = chunk * _CHUNK
        size = min(_CHUNK, n - first)
        stride, start = np.int64(1), np.int64(0)
        if size == _CHUNK:
            random = next_random(state)
            stride, start = np.int64(random >> np.uint64(59)) | 1, np.int64(random >> np.uint64(54))
        for j in range(size):  # a slice that is assigned takes Numba seconds to compile
            order[filled + j] = points[first + (start + stride * j) % _CHUNK]
        if size < _CHUNK:
            shuffle(order[filled : filled + size], size, state)
        filled += size
    return order


@njit(cache=True, nogil=True, allocates=False)
def shuffle(items, n, state):
    """Shuffle the first n items in place; `state` is an array of one uint64 above 0, which is advanced."""
    for j in range(n - 1, 0, -1):
        other = np.int64(next_random(state) % np.uint64(j + 1))
        items[j], items[other] = items[other], items[j]


@njit(cache=True, nogil=True, inline="always")
def next_random(state):
    """Return 64 random bits (xorshift) and advance `state`."""
    random = state[0]
    random ^= random << np.uint64(13)
    random ^= random >> np.uint64(7)
    random ^= random << np.uint64(17)
    state[0] = random
    return random
