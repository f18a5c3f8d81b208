"""Labels of many points chosen together, so that a macro average or the coverage over labels is as large as possible.

The k best labels of each point maximise precision. Macro-F1@k, macro-recall@k and coverage@k count labels, not points:
the first prediction of a rare label gains more than the thousandth of a frequent one. Their expected value for
probabilities P_il is maximised by block coordinate ascent (Schultheis et al. 2023, "Generalized test utilities for
long-tail performance in extreme multi-label classification", section 5): each point in turn takes the k candidates that
gain most, given what all other points have. For one point at a time the gains are linear, `gain_l P_il + offset_l`,
learned on unseen points by the Frank-Wolfe algorithm.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from longtail.core import topk
from longtail.core.compiled import njit
from longtail.core.parameters import check_choice, check_whole
from longtail.core.predictions import Predictions, empty_top
from longtail.errors import DataError

Floats = NDArray[np.float64]
Narrow = NDArray[np.float32]
Ints = NDArray[np.int32]

OBJECTIVES = ("macro-f1", "macro-recall", "coverage")
POINTWISE = OBJECTIVES[:2]
_PASSES = 20
_ENOUGH = 1e-6  # a pass that gains less, relative to the value, is the last one
_STEPS = 20  # of Frank-Wolfe
_MIXES = np.linspace(0, 1, 41)


class Chosen(NamedTuple):
    """Labels that were chosen together.

    Attributes
    ----------
    predictions : Predictions
        The chosen labels of each point, most probable first, with their probabilities.
    expected : list of float
        Expected value of the objective, a fraction: of the k most probable labels, and after each pass.
    """

    predictions: Predictions
    expected: list[float]


def choose_together(
    found: Predictions,
    k: int,
    objective: str = "macro-f1",
    *,
    n_labels: int | None = None,
    shares: Floats | None = None,
    random_state: int = 0,
) -> Chosen:
    """Return k labels per point that together maximise the expected value of an objective.

    Parameters
    ----------
    found : Predictions
        Candidates with probabilities as scores (`predict(X, k=100, calibrated=True)`), more than k per point.
    k : int
        Labels per point; a point with fewer candidates gets all of them.
    objective : {"macro-f1", "macro-recall", "coverage"}, default "macro-f1"
        What to maximise, at k.
    n_labels : int, optional
        Number of labels that the mean is over; by default that of the model that predicted.
    shares : ndarray of shape (n_labels,), optional
        Share of training points per label: a label is expected at least this often, even if it is rarely a candidate.
    random_state : int, default 0
        Seed of the order of points.

    Returns
    -------
    Chosen

    Raises
    ------
    ParameterError
        If k is not a whole number of at least 1, or the objective is unknown.
    DataError
        If a score is not a probability.
    """
    check_choice("objective", objective, OBJECTIVES)
    check_whole("k", k, 1)
    check_probabilities(found)
    width = _width(found, n_labels)
    k = min(k, found.k)
    labels, likely = found.labels, np.where(found.labels >= 0, found.scores, 0).astype(np.float64)
    taken = _most_probable(likely, labels, k)
    number = OBJECTIVES.index(objective)
    sums = _sums(labels, likely, taken, width)
    true = _true(labels, likely, width)
    if shares is not None:
        true[: shares.size] = np.maximum(true[: shares.size], len(found) * shares)
    expected = [_value(number, *sums, true, width)]
    rng = np.random.default_rng(random_state)
    for _ in range(_PASSES):
        _one_pass(number, rng.permutation(len(found)), labels, likely, taken, true, *sums, k)
        sums = _sums(labels, likely, taken, width)  # again: differences of many small numbers add up
        expected.append(_value(number, *sums, true, width))
        if expected[-1] - expected[-2] <= _ENOUGH * expected[-1]:
            break
    return Chosen(_as_predictions(found, taken, k), expected)


class Gains(NamedTuple):
    """What a label is worth to an objective: `gain * P + offset`, point by point.

    Attributes
    ----------
    gain : ndarray of float64, shape (n_labels,)
        Worth of a hit.
    offset : ndarray of float64, shape (n_labels,)
        Worth of a prediction, at most 0.
    """

    gain: Floats
    offset: Floats

    def __call__(self, labels: NDArray[np.int32], probabilities: NDArray[Any]) -> Floats:
        """Return the worth of candidates; -inf for padding."""
        likely = np.where(labels >= 0, probabilities, 0)
        return np.where(labels >= 0, self.gain[labels] * likely + self.offset[labels], -np.inf)

    def undone(self, labels: NDArray[np.int32], worth: NDArray[Any]) -> Floats:
        """Return the probabilities behind the worth of candidates; 0 for padding."""
        return np.where(labels >= 0, (worth - self.offset[labels]) / self.gain[labels], 0)

    def best_of(self, found: Predictions, k: int) -> Predictions:
        """Return the k candidates that are worth most, best first, with their worth as scores."""
        labels, scores = empty_top(len(found), min(k, found.k))
        worth = self(found.labels, found.scores).astype(np.float32)
        _collect(found.labels, worth, found.labels >= 0, labels, scores)
        return Predictions(labels, scores, found.n_labels, found.label_names)


def learn_gains(found: Predictions, k: int, objective: str, shares: Floats) -> Gains:
    """Learn gains and offsets per label on unseen points, by the Frank-Wolfe algorithm.

    Parameters
    ----------
    found : Predictions
        Candidates of unseen points, with probabilities as scores.
    k : int
        Labels per point.
    objective : {"macro-f1", "macro-recall"}
        What to maximise, at k. Coverage is about a batch: alone, no point can know what others have covered.
    shares : ndarray of shape (n_labels,)
        Share of training points per label: what is expected of labels that no unseen point has as a candidate.

    Returns
    -------
    Gains
        In units of points: only their ratios matter.

    Notes
    -----
    Each step takes the gradient of the objective at the mixture of the rules so far, applies it as a rule, and mixes
    the result in by the share that is best. Of all gradients the one is returned whose own rule has the largest value,
    so that prediction needs no randomness.
    """
    check_choice("objective", objective, POINTWISE)
    check_whole("k", k, 1)
    check_probabilities(found)
    number, width, k = OBJECTIVES.index(objective), shares.size, min(k, found.k)
    labels, likely = found.labels, np.where(found.labels >= 0, found.scores, 0).astype(np.float64)
    true = np.maximum(_true(labels, likely, width), shares * len(found))
    mixture = np.array(_sums(labels, likely, _most_probable(likely, labels, k), width))
    best, best_value = Gains(np.ones(width), np.zeros(width)), _value(number, *_three(mixture), true, width)
    for _ in range(_STEPS):
        gains = _gradient(number, mixture[0], mixture[1], true)
        sums = np.array(_sums(labels, likely, _most_probable(gains(labels, likely), labels, k), width))
        value = _value(number, *_three(sums), true, width)
        if value > best_value:
            best, best_value = gains, value
        values = [_value(number, *_three(mixture + mix * (sums - mixture)), true, width) for mix in _MIXES]
        mix = _MIXES[int(np.argmax(values))]
        if mix == 0:
            break
        mixture += mix * (sums - mixture)
    return best


def check_probabilities(found: Predictions) -> None:
    """Raise DataError unless all scores are probabilities in (0, 1]."""
    kept = found.scores[found.labels >= 0]
    if ((kept <= 0) | (kept > 1)).any():
        raise DataError("a score is not a probability above 0 and at most 1; predict with calibrated=True")


def _width(found: Predictions, n_labels: int | None) -> int:
    least = int(found.labels.max(initial=-1)) + 1
    return max(n_labels or found.n_labels or least, least, 1)


def _most_probable(worth: Floats, labels: NDArray[np.int32], k: int) -> NDArray[np.bool_]:
    """Return which candidates are the k best per point; padding never."""
    taken = np.zeros(labels.shape, dtype=np.bool_)
    order = np.argsort(np.where(labels >= 0, -worth, np.inf), axis=1, kind="stable")[:, :k]
    np.put_along_axis(taken, order, True, axis=1)
    return taken & (labels >= 0)


def _true(labels: NDArray[np.int32], likely: Floats, width: int) -> Floats:
    kept = labels >= 0
    return np.bincount(labels[kept], weights=likely[kept], minlength=width).astype(np.float64)


def _sums(
    labels: NDArray[np.int32], likely: Floats, taken: NDArray[np.bool_], width: int
) -> tuple[Floats, Floats, Floats]:
    """Return per label the expected hits, the predictions, and the logarithm of the probability of no hit."""
    chosen, p = labels[taken], likely[taken]
    hits = np.bincount(chosen, weights=p, minlength=width).astype(np.float64)
    predicted = np.bincount(chosen, minlength=width).astype(np.float64)
    missed = np.bincount(chosen, weights=np.log1p(-np.minimum(p, 1 - 1e-9)), minlength=width).astype(np.float64)
    return hits, predicted, missed


def _three(rows: Floats) -> tuple[Floats, Floats, Floats]:
    return rows[0], rows[1], rows[2]


def _value(number: int, hits: Floats, predicted: Floats, missed: Floats, true: Floats, width: int) -> float:
    """Return the expected value of an objective, as a mean over the labels."""
    if number == 0:
        terms = 2 * hits / np.maximum(predicted + true, 1e-300)
    elif number == 1:
        terms = hits / np.maximum(true, 1e-300)
    else:
        terms = -np.expm1(missed)
    return float(terms.sum() / width)


def _gradient(number: int, hits: Floats, predicted: Floats, true: Floats) -> Gains:
    """Return what one more hit and one more prediction add to the term of each label.

    Differences, not derivatives: a label without predictions would be worth 2 / 0.01 where one gains it 2 / 1.01.
    """
    if number == 0:
        before, after = np.maximum(predicted + true, 1e-9), predicted + true + 1
        return Gains(2 / after, 2 * hits / after - 2 * hits / before)
    return Gains(1 / (true + 1), np.zeros_like(true))


def _as_predictions(found: Predictions, taken: NDArray[np.bool_], k: int) -> Predictions:
    labels, scores = empty_top(len(found), k)
    _collect(found.labels, found.scores, taken, labels, scores)
    return Predictions(labels, scores, found.n_labels, found.label_names)


@njit(cache=True, nogil=True)
def _collect(candidates: Ints, probabilities: Narrow, taken: NDArray[np.bool_], labels: Ints, scores: Narrow) -> None:
    for i in range(candidates.shape[0]):
        for j in range(candidates.shape[1]):
            if taken[i, j]:
                topk.offer(candidates[i, j], probabilities[i, j], labels[i], scores[i])


@njit(cache=True, nogil=True)
def _gain(number: int, hits: float, predicted: float, missed: float, true: float, p: float) -> float:
    """Return what one more prediction of a label with probability p adds to its term; `_value` has the terms."""
    if number == 0:
        with_it = 2 * (hits + p) / (predicted + 1 + true)
        without = 0.0 if predicted + true <= 0 else 2 * hits / (predicted + true)
        return with_it - without
    if number == 1:
        return p / true
    return float(np.exp(missed)) * p


@njit(cache=True, nogil=True)
def _one_pass(
    number: int,
    order: NDArray[np.int64],
    labels: Ints,
    likely: Floats,
    taken: NDArray[np.bool_],
    true: Floats,
    hits: Floats,
    predicted: Floats,
    missed: Floats,
    k: int,
) -> None:
    """Let each point in this order take the k candidates that gain most; `taken` and the sums change."""
    width = labels.shape[1]
    gains = np.empty(width)
    for i in order:
        for j in range(width):
            label, p = labels[i, j], likely[i, j]
            if label < 0:
                gains[j] = -np.inf
                continue
            if taken[i, j]:
                hits[label] -= p
                predicted[label] -= 1
                missed[label] -= np.log1p(-min(p, 1 - 1e-9))
                taken[i, j] = False
            gains[j] = _gain(number, max(hits[label], 0.0), predicted[label], missed[label], true[label], p)
        for _ in range(min(k, width)):
            best = -1
            for j in range(width):
                if not taken[i, j] and gains[j] > -np.inf and (best < 0 or gains[j] > gains[best]):
                    best = j
            if best < 0:
                break
            label, p = labels[i, best], likely[i, best]
            taken[i, best] = True
            hits[label] += p
            predicted[label] += 1
            missed[label] += np.log1p(-min(p, 1 - 1e-9))
