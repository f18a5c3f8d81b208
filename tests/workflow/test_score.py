"""Scores of predictions: unknown labels, and what needs training counts."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from longtail.core.predictions import Predictions
from longtail.objectives import PropensityModel
from longtail.workflow.score import score_predictions


def test_labels_that_training_never_saw_are_misses_with_the_propensity_of_no_points():
    predictions = Predictions([[0], [0]], [[1.0], [1.0]])
    Y = sparse.csr_matrix(np.array([[1, 0, 0], [0, 0, 1]]))  # label 2 is unknown
    counts = np.array([5, 3])
    scores = score_predictions(predictions, Y, training_counts=counts, n_training_points=10)
    inverse = PropensityModel().inverse([5, 3, 0], 10)
    assert scores.metrics["P@1"] == pytest.approx(50)
    assert scores.metrics["PSP@1"] == pytest.approx(100 * inverse[0] / (inverse[0] + inverse[2]))
    assert scores.bands["tail"]["labels"] >= 1
    plain = score_predictions(predictions, Y)
    assert plain.bands is None
    assert "PSP@1" not in plain.metrics
