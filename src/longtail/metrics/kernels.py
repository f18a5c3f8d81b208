"""The two loops over points that NumPy cannot vectorise; all other metric code is arithmetic on their results."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from longtail.core import topk
from longtail.core.compiled import njit


@njit(cache=True, nogil=True)
def find_hits(
    indptr: NDArray[np.int64],
    indices: NDArray[np.int32],
    predicted: NDArray[np.int32],
    n_labels: int,
    hits: NDArray[np.bool_],
) -> int:
    """Set `hits[i, j]` where `predicted[i, j]` is a true label of point i.

    Returns the first point with a label predicted twice (it would count twice), or -1.
    """
    true_in = np.full(n_labels, -1, np.int64)  # the last point that has the label ...
    seen_in = np.full(n_labels, -1, np.int64)  # ... and the last one that predicts it
    for i in range(predicted.shape[0]):
        for at in range(indptr[i], indptr[i + 1]):
            true_in[indices[at]] = i
        for j in range(predicted.shape[1]):
            label = predicted[i, j]
            if label < 0:
                continue
            if seen_in[label] == i:
                return i
            seen_in[label] = i
            hits[i, j] = true_in[label] == i
    return -1


@njit(cache=True, nogil=True)
def largest_weights(
    indptr: NDArray[np.int64],
    indices: NDArray[np.int32],
    weights: NDArray[np.float64],
    labels: NDArray[np.int32],
    largest: NDArray[np.float64],
) -> None:
    """Fill row i of `largest` with the weights of point i's true labels, largest first; the rest stays 0.

    `labels` is scratch space of the same shape, filled with -1.
    """
    for i in range(indptr.shape[0] - 1):
        for at in range(indptr[i], indptr[i + 1]):
            topk.offer(indices[at], weights[indices[at]], labels[i], largest[i])
