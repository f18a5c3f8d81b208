"""Points with one of three frequent labels and, some of them, one of many rare ones: both are told by words."""

from __future__ import annotations

import numpy as np
from scipy import sparse

HEAD, TAIL = 3, 15
N_LABELS = HEAD + TAIL
WORDS = 2  # of each label; the rest is noise


def planted_tail(n_points: int, seed: int = 0) -> tuple[sparse.csr_matrix, sparse.csr_matrix]:
    """X (unit rows) and Y. Two words in ten are lost, so no label is certain, and the frequent one is learned best."""
    rng = np.random.default_rng(seed)
    X = np.zeros((n_points, N_LABELS * WORDS + 20), np.float32)
    Y = np.zeros((n_points, N_LABELS), np.float32)
    for i in range(n_points):
        labels = [int(rng.integers(HEAD))]
        if rng.random() < 0.4:
            labels.append(HEAD + int(rng.integers(TAIL)))
        for label in labels:
            Y[i, label] = 1
            X[i, label * WORDS : (label + 1) * WORDS] = rng.random(WORDS) < 0.8
        X[i, N_LABELS * WORDS + rng.integers(20, size=4)] = 1
    return sparse.csr_matrix(X / np.linalg.norm(X, axis=1, keepdims=True)), sparse.csr_matrix(Y)
