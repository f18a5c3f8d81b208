"""Inputs shared by the metric tests: random ones with all kinds of unusual rows, and one small enough for paper."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from longtail.core.predictions import Predictions


def random_case(
    seed: int, n: int = 60, n_labels: int = 25, k: int = 7
) -> tuple[Predictions, sparse.csr_matrix, np.ndarray]:
    """Predictions, Y and inverse propensities; some points without labels, some rows shorter than k, some empty."""
    rng = np.random.default_rng(seed)
    dense = (rng.random((n, n_labels)) < 0.15) & (rng.random(n) > 0.2)[:, None]
    Y = sparse.csr_matrix(dense.astype(np.float32))
    labels = np.argsort(rng.random((n, n_labels)), axis=1)[:, :k].astype(np.int32)
    kept = np.where(rng.random(n) < 0.3, rng.integers(0, k + 1, n), k)
    labels[np.arange(k)[None, :] >= kept[:, None]] = -1
    scores = np.where(labels >= 0, -np.arange(k, dtype=np.float32)[None, :], -np.inf)
    return Predictions(labels, scores), Y, 1.0 + 9.0 * rng.random(n_labels)


def predictions(rows: list[list[int]]) -> Predictions:
    """Predictions from lists of label ids, best first; short rows are padded."""
    k = max(len(row) for row in rows)
    labels = np.array([row + [-1] * (k - len(row)) for row in rows], dtype=np.int32)
    return Predictions(labels, np.where(labels >= 0, -np.arange(k, dtype=np.float32)[None, :], -np.inf))


# Three points, five labels. The hits: point 0 at ranks 1 and 3, point 1 at rank 2, point 2 (without labels) never.
PAPER_PREDICTIONS = [[0, 1, 2], [3, 4], [0, 2, 1]]
PAPER_Y = [[0, 2, 3, 4], [4], []]
PAPER_INVERSE = np.array([2.0, 1.0, 4.0, 5.0, 3.0])
