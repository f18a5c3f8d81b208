"""Exact top k of many points on a GPU: dense tiles of labels are scored against all points, the k best are kept."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from longtail.core.predictions import Predictions
from longtail.errors import first_line
from longtail.linear.gpu.backend import GROUP, Backend, GpuError
from longtail.linear.scorer import LinearScorer

MANY_POINTS = 1024  # fewer are scored on the CPU
MOST_BEST = 1024  # larger k, too
_POINTS_AT_A_TIME = 2**18
_MOST_LABELS = 2**16  # in a tile


class GpuScorer:
    """Sparse linear model on a GPU.

    Parameters
    ----------
    backend : Backend
        Device.
    scorer : LinearScorer
        The model; it knows the labels of each classifier.
    """

    def __init__(self, backend: Backend, scorer: LinearScorer) -> None:
        self.backend, self._scorer, self._weights = backend, scorer, scorer.weights

    def top(self, X: sparse.csr_matrix, k: int) -> Predictions:
        """Return the k best labels per row of X; ties go to the lower label id."""
        try:
            return self._top(X, k)
        except (*self.backend.memory_errors, *self.backend.device_errors) as error:
            raise GpuError(f"{self.backend.name} failed ({first_line(error)}); set device='cpu'") from error

    def _top(self, X: sparse.csr_matrix, k: int) -> Predictions:
        kept, n_best = self._weights, min(k, max(self._weights.intercepts.size, 1))
        best, scores = np.full((X.shape[0], n_best), -1, np.int32), np.zeros((X.shape[0], n_best), np.float32)
        with self.backend.active():
            weights = _arrays(self.backend, kept.ptr, kept.classifiers, kept.values)
            intercepts = self.backend.xp.asarray(kept.intercepts)
            tile = int(0.5 * self.backend.free_bytes()) // (4 * GROUP * max(X.shape[1], 1))
            span = GROUP * max(1, min(tile, _MOST_LABELS // GROUP))
            for first in range(0, X.shape[0], _POINTS_AT_A_TIME):
                rows = slice(first, first + _POINTS_AT_A_TIME)
                some = X[rows]
                arrays = _arrays(self.backend, some.indptr, some.indices, some.data)
                keys = self.backend.to_host(self.backend.best(arrays, weights, intercepts, n_best, span))
                found = keys > 0
                best[rows] = np.where(found, (~keys & np.uint64(2**32 - 1)).astype(np.int64), -1)
                bits = (keys >> np.uint64(32)).astype(np.uint32)
                as_float = np.where(bits >> np.uint32(31), bits ^ np.uint32(2**31), ~bits).view(np.float32)
                scores[rows] = as_float
        return self._scorer.labels_of(best, scores, k)


def _arrays(backend: Backend, indptr: NDArray, indices: NDArray, values: NDArray) -> tuple:
    """Return a matrix in CSR form on the device, in the types of the kernels."""
    given = ((indptr, np.uint64), (indices, np.uint32), (values, np.float32))
    return tuple(backend.xp.asarray(array).astype(kind) for array, kind in given)
