"""Where to look for a feature among those of a node: an index of buckets, made when a tree is first searched.

The features of a node are ascending. They are divided by a power of two, such that about `_PER_BUCKET` of them share a
quotient, the bucket; a look-up reads those of one bucket. A binary search takes a dozen steps, each of which waits for
the one before, and a table over all features must be filled for every node that a batch visits.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from longtail.core.compiled import njit

_PER_BUCKET = 2


class FeatureIndex(NamedTuple):
    """Buckets of all nodes; feature f of node v is in bucket f >> shift[v].

    The rows of bucket b of node v, counted within the node, are `bucket_start[first_bucket[v] + b]` to the next start.
    A node has `first_bucket[v + 1] - first_bucket[v] - 1` buckets.
    """

    first_bucket: NDArray[np.int64]
    shift: NDArray[np.int64]
    bucket_start: NDArray[np.int32]


def indexed(row_start: NDArray[np.int64], features: NDArray[np.int32]) -> FeatureIndex:
    """Return the index of the features of all nodes, `row_start[v]` to `row_start[v + 1]` for node v."""
    shift, n_buckets = _sizes(row_start, features)
    first_bucket = np.concatenate([[0], np.cumsum(n_buckets + 1)])
    bucket_start = np.zeros(int(first_bucket[-1]), np.int32)
    _fill(row_start, features, first_bucket, shift, bucket_start)
    return FeatureIndex(first_bucket, shift, bucket_start)


@njit(cache=True, nogil=True)
def _sizes(row_start, features):
    n_nodes = row_start.shape[0] - 1
    shift, n_buckets = np.zeros(n_nodes, np.int64), np.zeros(n_nodes, np.int64)
    for v in range(n_nodes):
        n_rows = row_start[v + 1] - row_start[v]
        if n_rows > 0:
            last = np.int64(features[row_start[v + 1] - 1])
            while _PER_BUCKET * ((last >> shift[v]) + 1) > n_rows and last >> shift[v] > 0:
                shift[v] += 1
            n_buckets[v] = (last >> shift[v]) + 1
    return shift, n_buckets


@njit(cache=True, nogil=True)
def _fill(row_start, features, first_bucket, shift, bucket_start):
    for v in range(shift.shape[0]):
        first, n_buckets = first_bucket[v], first_bucket[v + 1] - first_bucket[v] - 1
        for r in range(row_start[v], row_start[v + 1]):
            bucket = np.int64(features[r]) >> shift[v]
            if bucket < n_buckets:
                bucket_start[first + bucket + 1] += 1
        for b in range(first, first + n_buckets):
            bucket_start[b + 1] += bucket_start[b]
