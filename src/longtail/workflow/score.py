"""Score predictions against observed labels, with the metrics and bands of every application."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from longtail.core.estimator import Estimator
from longtail.core.predictions import Predictions
from longtail.metrics import Matches, by_band, evaluate, evaluate_sets
from longtail.objectives import PropensityModel
from longtail.workflow.apply import predict_in_chunks
from longtail.workflow.decide import Decision

KS = (1, 2, 3, 4, 5)


@dataclass(frozen=True)
class Scores:
    """Metrics of predictions.

    Attributes
    ----------
    metrics : dict of str to float
        Metrics in percent by name, e.g. "P@1", for k up to 5.
    bands : dict of str to dict, or None
        Label-wise measures of head, torso and tail labels at the largest k; None without training counts.
    k : int
        The largest k.
    """

    metrics: dict[str, float]
    bands: dict[str, dict[str, float]] | None
    k: int


def score_predictions(
    predictions: Predictions,
    Y: sparse.csr_matrix,
    *,
    training_counts: NDArray[np.int64] | None = None,
    n_training_points: int | None = None,
    propensity: PropensityModel | None = None,
) -> Scores:
    """Return the metrics of predictions.

    Labels of Y beyond the training counts were not seen in training: they count as misses, with the propensity of a
    label without points.

    Parameters
    ----------
    predictions : Predictions
        Predicted labels.
    Y : csr_matrix
        Observed labels.
    training_counts : ndarray of int64, optional
        Training points per label, for propensity-scored metrics and bands.
    n_training_points : int, optional
        Number of training points, likewise.
    propensity : PropensityModel, optional
        Propensity model; `PropensityModel()` by default.

    Returns
    -------
    Scores
    """
    ks = [k for k in KS if k <= predictions.k]
    matches = matched(
        predictions, Y, training_counts=training_counts, n_training_points=n_training_points, propensity=propensity
    )
    inverse, bands = matches.inverse_propensities, None
    if inverse is not None and training_counts is not None:
        bands = by_band(matches, ks[-1], training_counts)
    return Scores(evaluate(predictions, matches.truth, inverse_propensities=inverse, ks=ks), bands, ks[-1])


def score_sets(model: Estimator, inputs: Any, Y: sparse.csr_matrix, threshold: float) -> dict[str, float]:
    """Return the metrics of the label sets that a model predicts at a threshold, and the threshold.

    Parameters
    ----------
    model : Estimator
        Fitted model with probabilities.
    inputs : csr_matrix or sequence of str
        What `conform` returned.
    Y : csr_matrix
        Observed labels.
    threshold : float
        Probability that a label must have.

    Returns
    -------
    dict of str to float
        `threshold`, and what `longtail.metrics.evaluate_sets` returns.
    """
    decision = Decision(threshold=threshold, probabilities=True)
    found = predict_in_chunks(model, inputs, min(decision.width(model), model.n_labels_), calibrated=True)
    return {"threshold": threshold, **evaluate_sets(decision.apply(found, model), Y)}


def matched(
    predictions: Predictions,
    Y: sparse.csr_matrix,
    *,
    training_counts: NDArray[np.int64] | None = None,
    n_training_points: int | None = None,
    propensity: PropensityModel | None = None,
) -> Matches:
    """Match predictions with observed labels; with inverse propensities if training counts are given.

    Labels beyond the training counts were not seen in training: they have the propensity of a label without points.

    Parameters
    ----------
    predictions : Predictions
        Predicted labels.
    Y : csr_matrix
        Observed labels.
    training_counts : ndarray of int64, optional
        Training points per label.
    n_training_points : int, optional
        Number of training points.
    propensity : PropensityModel, optional
        Propensity model; `PropensityModel()` by default.

    Returns
    -------
    Matches
    """
    if training_counts is None or n_training_points is None:
        return Matches.of(predictions, Y)
    width = max(Y.shape[1], training_counts.size, int(predictions.labels.max(initial=-1)) + 1)
    counts = np.zeros(width, np.int64)
    counts[: training_counts.size] = training_counts
    wide = sparse.csr_matrix((Y.data, Y.indices, Y.indptr), shape=(Y.shape[0], width))
    inverse = (propensity or PropensityModel()).inverse(counts, n_training_points)
    return Matches.of(predictions, wide, inverse_propensities=inverse)
