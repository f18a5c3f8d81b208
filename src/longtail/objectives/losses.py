"""Losses that decompose over labels: a part l+ for observed labels, a part l- for all others, and their derivatives.

These are the definitions: NumPy, any shape, stable for large scores. Fast solvers are tested against them. Parts as in
Qaraei et al. (WWW 2021, table 1); s is the score of a label.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from longtail.core.registry import unknown
from longtail.errors import ParameterError

Floats = NDArray[np.float64]
Part = Callable[[Floats], Floats]


@dataclass(frozen=True)
class Loss:
    """Loss that decomposes over labels.

    Attributes
    ----------
    name : str
        Name, as `loss_named` takes it.
    positive : callable
        l+(s) of an array of scores.
    negative : callable
        l-(s) of an array of scores.
    positive_gradient : callable
        Derivative of l+ with respect to s.
    negative_gradient : callable
        Derivative of l- with respect to s.
    """

    name: str
    positive: Part
    negative: Part
    positive_gradient: Part
    negative_gradient: Part


def _of_margin(name: str, part: Part, gradient: Part) -> Loss:
    """Return the loss with l+(s) = f(s) and l-(s) = f(-s)."""
    return Loss(name, part, lambda s: part(-s), gradient, lambda s: -gradient(-s))


def _logistic_gradient(margins: Floats) -> Floats:
    from scipy.special import expit  # here: it takes long to load, and predicting needs none of it

    return -expit(-margins)


SQUARED_HINGE = _of_margin(
    "squared-hinge",
    lambda s: np.maximum(1.0 - s, 0.0) ** 2,
    lambda s: -2.0 * np.maximum(1.0 - s, 0.0),
)
# At the kink, s = 1, the derivative is taken from the side where the loss is zero.
HINGE = _of_margin("hinge", lambda s: np.maximum(1.0 - s, 0.0), lambda s: np.where(s < 1.0, -1.0, 0.0))
# Binary cross-entropy of the logit s (eq. 17); natural logarithm, without the paper's factor 1/log 2.
LOGISTIC = _of_margin("logistic", lambda s: np.logaddexp(0.0, -s), _logistic_gradient)
# Targets 1 and 0, as in regression on the indicator matrix.
SQUARED_ERROR = Loss(
    "squared-error", lambda s: (1.0 - s) ** 2, lambda s: s**2, lambda s: 2.0 * (s - 1.0), lambda s: 2.0 * s
)

LOSSES = {loss.name: loss for loss in (SQUARED_HINGE, HINGE, LOGISTIC, SQUARED_ERROR)}


def loss_named(name: str) -> Loss:
    """Return a loss by name.

    Parameters
    ----------
    name : str
        "squared-hinge", "hinge", "logistic" or "squared-error".

    Returns
    -------
    Loss

    Raises
    ------
    ParameterError
        If there is no loss of this name.
    """
    if name not in LOSSES:
        raise ParameterError(unknown("loss", str(name), LOSSES))
    return LOSSES[name]


def weighted_loss(
    loss: Loss, scores: ArrayLike, Y: Any, own: ArrayLike, opposite: ArrayLike, *, bounded: bool = False
) -> Floats:
    """Return the weighted loss of each (point, label) pair.

    Parameters
    ----------
    loss : Loss
        Loss with parts l+ and l-.
    scores : (n, L) array_like
        Scores.
    Y : (n, L) dense or sparse 0/1 matrix
        Observed labels.
    own : (L,) array_like
        Factor of l+ per label, from `Weighting.coefficients`.
    opposite : (L,) array_like
        Factor of l- per label, likewise.
    bounded : bool, default False
        Replace negative terms, which only the unbiased weighting has, by 0. Training then cannot diverge, at the price
        of some bias where an observed label has a high score.

    Returns
    -------
    (n, L) array
        own l+ + opposite l- where y = 1, l- where y = 0.
    """
    terms = _weighted(loss.positive, loss.negative, scores, Y, own, opposite)
    return np.maximum(terms, 0.0) if bounded else terms


def weighted_gradient(loss: Loss, scores: ArrayLike, Y: Any, own: ArrayLike, opposite: ArrayLike) -> Floats:
    """Return the derivative of `weighted_loss` with respect to the scores.

    Parameters
    ----------
    loss : Loss
        Loss with parts l+ and l-.
    scores : (n, L) array_like
        Scores.
    Y : (n, L) dense or sparse 0/1 matrix
        Observed labels.
    own : (L,) array_like
        Factor of l+ per label, from `Weighting.coefficients`.
    opposite : (L,) array_like
        Factor of l- per label, likewise.

    Returns
    -------
    (n, L) array
    """
    return _weighted(loss.positive_gradient, loss.negative_gradient, scores, Y, own, opposite)


def _weighted(plus: Part, minus: Part, scores: ArrayLike, Y: Any, own: ArrayLike, opposite: ArrayLike) -> Floats:
    s = np.asarray(scores, dtype=np.float64)
    y = np.asarray(Y.toarray() if sparse.issparse(Y) else Y)
    if s.shape != y.shape:
        raise ParameterError(f"scores have shape {s.shape}, but Y has shape {y.shape}")
    negative = minus(s)
    observed = np.asarray(own) * plus(s) + np.asarray(opposite) * negative
    return np.where(y > 0, observed, negative)
