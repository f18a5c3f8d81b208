"""Exact top k of many points on a GPU: dense tiles of labels are scored against all points, the k best are kept."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from longtail.core.predictions import Predictions, empty_top
from longtail.errors import first_line
from longtail.linear.gpu.backend import GROUP, Backend, GpuError

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
    by_feature : (D, L) csr_matrix of float32
        Weights.
    intercepts : (L,) array of float32
        Intercepts; labels with -inf are never predicted.
    """

    def __init__(self, backend: Backend, by_feature: sparse.csr_matrix, intercepts: NDArray[np.float32]) -> None:
        self.backend, self.n_features = backend, by_feature.shape[0]
        self._by_feature, self._intercepts = by_feature, intercepts

    def top(self, X: sparse.csr_matrix, k: int) -> Predictions:
        """Return the k best labels per row of X; ties go to the lower label id."""
        try:
            return self._top(X, k)
        except (*self.backend.memory_errors, *self.backend.device_errors) as error:
            raise GpuError(f"{self.backend.name} failed ({first_line(error)}); set device='cpu'") from error

    def _top(self, X: sparse.csr_matrix, k: int) -> Predictions:
        labels, scores = empty_top(X.shape[0], k)
        with self.backend.active():
            weights = _arrays(self.backend, self._by_feature)
            intercepts = self.backend.xp.asarray(self._intercepts)
            tile = int(0.5 * self.backend.free_bytes()) // (4 * GROUP * max(self.n_features, 1))
            span = GROUP * max(1, min(tile, _MOST_LABELS // GROUP))
            for first in range(0, X.shape[0], _POINTS_AT_A_TIME):
                rows = slice(first, first + _POINTS_AT_A_TIME)
                arrays = _arrays(self.backend, X[rows])
                keys = self.backend.to_host(self.backend.best(arrays, weights, intercepts, k, span))
                found = keys > 0
                labels[rows] = np.where(found, (~keys & np.uint64(2**32 - 1)).astype(np.int64), -1)
                bits = (keys >> np.uint64(32)).astype(np.uint32)
                as_float = np.where(bits >> np.uint32(31), bits ^ np.uint32(2**31), ~bits).view(np.float32)
                scores[rows] = np.where(found, as_float, -np.inf)
        return Predictions(labels, scores)


def _arrays(backend: Backend, matrix: sparse.csr_matrix) -> tuple:
    asarray = backend.xp.asarray
    return asarray(matrix.indptr.astype(np.uint64)), asarray(matrix.indices.astype(np.uint32)), asarray(matrix.data)
