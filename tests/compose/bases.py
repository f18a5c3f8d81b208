"""Bases for tests that remember what they were given."""

from __future__ import annotations

import numpy as np

from longtail.core.estimator import Estimator
from longtail.core.predictions import Predictions
from longtail.core.state import State


class Witness(Estimator):
    """Knows the points it was trained on by their first feature: a seen point gets label 0, an unseen one label 1.

    `fits` counts the trainings of all witnesses; an error is raised in training number `fails_at`.
    """

    fits: list[int] = []
    fails_at: int | None = None

    def _fit(self, prepared, run):
        X, Y = prepared.X, prepared.Y
        Witness.fits.append(X.shape[0])
        if len(Witness.fits) == Witness.fails_at:
            raise KeyboardInterrupt
        self.seen = set(X[:, [0]].toarray().ravel().tolist())
        self.shape = Y.shape

    def _predict(self, X, k):
        seen = np.array([value in self.seen for value in X[:, [0]].toarray().ravel().tolist()], dtype=bool)
        scores = np.zeros((X.shape[0], self.n_labels_), np.float32)
        scores -= np.arange(self.n_labels_) / 10
        scores[np.arange(X.shape[0]), np.where(seen, 0, 1)] = 1 + X[:, [0]].toarray().ravel() / 1000
        return Predictions.from_dense(scores, k)

    def _get_state(self):
        return State(arrays={"seen": np.array(sorted(self.seen))})

    def _set_state(self, state):
        self.seen = set(state.arrays["seen"].tolist())


class Flat(Witness):
    """Gives every label the same score."""

    def _predict(self, X, k):
        return Predictions.from_dense(np.zeros((X.shape[0], self.n_labels_), np.float32), k)
