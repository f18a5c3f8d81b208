"""A small training set with enough labels for several blocks."""

from __future__ import annotations

import numpy as np
from scipy import sparse


def small(n_points: int = 300, n_labels: int = 100, seed: int = 0) -> tuple[sparse.csr_matrix, sparse.csr_matrix]:
    """Return points whose features are those of their labels, and a few random ones."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(n_labels, size=(n_points, 2))
    own = rng.random((n_labels, 60)) < 0.1
    X = (own[labels[:, 0]] | own[labels[:, 1]] | (rng.random((n_points, 60)) < 0.05)).astype(np.float32)
    X /= np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1)
    Y = np.zeros((n_points, n_labels), np.float32)
    Y[np.arange(n_points)[:, None], labels] = 1
    return sparse.csr_matrix(X), sparse.csr_matrix(Y)


def assert_same(found, wanted) -> None:
    """Compare two models bit by bit."""
    found, wanted = found._get_state().arrays, wanted._get_state().arrays
    assert sorted(found) == sorted(wanted)
    for name, array in wanted.items():
        np.testing.assert_array_equal(found[name], array, err_msg=name)
