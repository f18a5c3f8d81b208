"""Data whose right answer is known: every label has words of its own, and a point carries the words of its labels."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse

N_LABELS = 6
WORDS_PER_LABEL = 3
N_FEATURES = N_LABELS * WORDS_PER_LABEL + 8  # eight words of noise, the last of which never occurs


@dataclass(frozen=True)
class Planted:
    X: sparse.csr_matrix
    Y: sparse.csr_matrix
    texts: list[str]

    def inputs(self, kind: str) -> sparse.csr_matrix | list[str]:
        return self.X if kind == "features" else list(self.texts)

    @property
    def lists(self) -> list[list[int]]:
        return [row.tolist() for row in np.split(self.Y.indices, self.Y.indptr[1:-1])]


def word(feature: int) -> str:
    return f"w{feature:02d}"


def planted(n_points: int, seed: int = 0) -> Planted:
    """Points with one label or two; every label has points, and low ids tend to have more."""
    rng = np.random.default_rng(seed)
    X = np.zeros((n_points, N_FEATURES), np.float32)
    Y = np.zeros((n_points, N_LABELS), np.float32)
    chances = 1.0 / np.arange(2, N_LABELS + 2)
    for i in range(n_points):
        first = rng.choice(N_LABELS, p=chances / chances.sum())
        labels = {int(first), int(rng.integers(N_LABELS))} if i % 3 == 0 else {int(first)}
        for label in labels:
            Y[i, label] = 1
            X[i, label * WORDS_PER_LABEL : (label + 1) * WORDS_PER_LABEL] = 1
        X[i, N_LABELS * WORDS_PER_LABEL + int(rng.integers(7))] = 1
    texts = [" ".join(word(j) for j in np.flatnonzero(row)) for row in X]
    X /= np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1)
    return Planted(sparse.csr_matrix(X), sparse.csr_matrix(Y), texts)
