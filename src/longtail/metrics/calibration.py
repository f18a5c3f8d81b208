"""How far probabilities are from what is observed: expected calibration error and reliability, by frequency band."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from longtail.core.parameters import check_whole
from longtail.core.predictions import Predictions
from longtail.errors import DataError
from longtail.metrics.labelwise import BAND_NAMES, frequency_bands, padded_counts
from longtail.metrics.matches import Floats, Matches, check_predictions

BINS = 20


class Reliability(NamedTuple):
    """Predicted labels in bins of their probability.

    Attributes
    ----------
    number : ndarray of int64, shape (bins,)
        Labels per bin.
    probability : ndarray of float64, shape (bins,)
        Mean probability per bin; NaN for an empty one.
    observed : ndarray of float64, shape (bins,)
        Share of them that are observed; NaN for an empty one.
    error : float
        Expected calibration error: the mean of |probability - observed|, weighted by `number`.
    """

    number: NDArray[np.int64]
    probability: Floats
    observed: Floats
    error: float


def calibration_error(predictions: Predictions, Y: Any, *, k: int = 5, bins: int = BINS) -> float:
    """Return ECE@k: the mean distance between the probabilities of the top k and the share that is observed.

    Parameters
    ----------
    predictions : Predictions
        With probabilities as scores, e.g. of `predict(X, calibrated=True)`.
    Y : (n, L) sparse or dense 0/1 matrix, or one list of label ids per point
        Observed labels.
    k : int, default 5
        Labels per point to look at.
    bins : int, default 20
        Bins of equal width between 0 and 1.

    Returns
    -------
    float
        A fraction: 0.02 is two points.

    Notes
    -----
    sum_b |sum_{i in b} p_i - hits_b| / N over bins b of the N predicted labels (padding left out); 0 without any. The
    bins are of equal width (Guo et al. 2017, eq. 3). Missing labels count as misses: probabilities are those of being
    observed.
    """
    return reliability(predictions, Y, k=k, bins=bins)["all"].error


def reliability(
    predictions: Predictions,
    Y: Any,
    *,
    k: int = 5,
    bins: int = BINS,
    training_counts: ArrayLike | None = None,
) -> dict[str, Reliability]:
    """Return probabilities beside what is observed, in bins, for all labels and by frequency band.

    Parameters
    ----------
    predictions : Predictions
        With probabilities as scores.
    Y : (n, L) sparse or dense 0/1 matrix, or one list of label ids per point
        Observed labels.
    k : int, default 5
        Labels per point to look at.
    bins : int, default 20
        Bins of equal width between 0 and 1.
    training_counts : array_like of int, optional
        Training points per label, for the bands.

    Returns
    -------
    dict of str to Reliability
        "all", and with training counts "head", "torso" and "tail" (`frequency_bands`).

    Raises
    ------
    DataError
        If a score is not a probability.
    """
    check_predictions(predictions)
    check_whole("bins", bins, 1)
    matches = Matches.of(predictions, Y)
    columns = slice(0, matches.column(k) + 1)
    labels, hits = matches.labels[:, columns], matches.hits[:, columns]
    scores = predictions.scores[:, columns].astype(np.float64)
    kept = labels >= 0
    if ((scores[kept] < 0) | (scores[kept] > 1)).any():
        raise DataError("a score is not a probability between 0 and 1; predict with calibrated=True")
    found = {"all": _binned(scores[kept], hits[kept], bins)}
    if training_counts is not None:
        band_of = frequency_bands(padded_counts(training_counts, matches.n_labels))
        for number, name in enumerate(BAND_NAMES):
            inside = kept & (band_of[labels] == number)
            found[name] = _binned(scores[inside], hits[inside], bins)
    return found


def _binned(probabilities: Floats, hits: NDArray[np.bool_], bins: int) -> Reliability:
    place = np.minimum((probabilities * bins).astype(np.int64), bins - 1)
    count = np.bincount(place, minlength=bins)
    total, right = (np.bincount(place, weights=w, minlength=bins) for w in (probabilities, hits.astype(np.float64)))
    error = float(np.abs(total - right).sum() / max(probabilities.size, 1))
    with np.errstate(invalid="ignore"):
        return Reliability(count, total / count, right / count, error)
