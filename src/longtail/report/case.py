"""What a report is about: predictions for test points, their labels, and what is known about training."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from longtail.core.plain import plain
from longtail.core.predictions import Predictions
from longtail.data import Dataset
from longtail.metrics import Matches, frequency_bands
from longtail.objectives import PropensityModel
from longtail.workflow.score import matched

K = 5  # labels per point that tables and counts look at
CANDIDATES = 20  # labels per point that thresholds and exponents choose from


@dataclass(frozen=True, eq=False)
class Case:
    """Predictions of one model, and of others for the same points.

    Parameters
    ----------
    title : str
        What the report is about.
    predictions : Predictions
        Up to `CANDIDATES` labels per point, in the label ids of `data`.
    data : Dataset
        Test data.
    names : list of str
        What people are shown for each label of `data`.
    model : Estimator or None
        The model; None for a file of predictions.
    counts : ndarray of int64 or None
        Training points per label.
    n_points : int or None
        Number of training points.
    training : Dataset or None
        Training data.
    others : dict of str to Predictions
        Predictions to compare with.
    propensity : PropensityModel
        Propensity model.
    budget : float or None
        Labels per point that thresholds should give on average; None for as many as the test points have.
    """

    title: str
    predictions: Predictions
    data: Dataset
    names: list[str]
    model: Any = None
    counts: NDArray[np.int64] | None = None
    n_points: int | None = None
    training: Dataset | None = None
    others: dict[str, Predictions] = field(default_factory=dict)
    propensity: PropensityModel = field(default_factory=PropensityModel)
    budget: float | None = None

    @cached_property
    def matches(self) -> Matches:
        """Predictions matched with the observed labels."""
        return self.matched(self.predictions)

    def matched(self, predictions: Predictions) -> Matches:
        """Return predictions of these points matched with the observed labels."""
        return matched(
            predictions,
            self.data.binary().Y,
            training_counts=self.counts,
            n_training_points=self.n_points,
            propensity=self.propensity,
        )

    @property
    def k(self) -> int:
        """Labels per point that tables look at."""
        return min(K, self.predictions.k)

    @cached_property
    def training_counts(self) -> NDArray[np.int64]:
        """Training points of every label, 0 where they are unknown."""
        counts = np.zeros(max(self.matches.n_labels, 0 if self.counts is None else self.counts.size), np.int64)
        if self.counts is not None:
            counts[: self.counts.size] = self.counts
        return counts

    @cached_property
    def bands(self) -> NDArray[np.int8]:
        """Band of every label: head, torso, tail."""
        return frequency_bands(self.training_counts)

    def name(self, label: int) -> str:
        """Return what people are shown for a label, on one line and without control characters."""
        return plain(self.names[label] if label < len(self.names) else str(label), 120)
