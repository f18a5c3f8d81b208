"""The losses, each as a positive part l+ (of a noted label) and a negative part l- (of any other), with derivatives.

These are the definitions: NumPy, of any shape, stable for large scores. Fast solvers are tested against them. Parts as
in Qaraei et al. (WWW 2021, table 1); s is the score of a label.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from scipy.special import expit

from longtail.core.registry import unknown
from longtail.errors import ParameterError

Floats = NDArray[np.float64]
Part = Callable[[Floats], Floats]


@dataclass(frozen=True)
class Loss:
    """A loss that decomposes over labels: its parts l+(s), l-(s) and their derivatives by s."""

    name: str
    positive: Part
    negative: Part
    positive_gradient: Part
    negative_gradient: Part


def _of_margin(name: str, part: Part, gradient: Part) -> Loss:
    """A loss of the margin: l+(s) = f(s), l-(s) = f(-s)."""
    return Loss(name, part, lambda s: part(-s), gradient, lambda s: -gradient(-s))


SQUARED_HINGE = _of_margin(
    "squared-hinge",
    lambda s: np.maximum(1.0 - s, 0.0) ** 2,
    lambda s: -2.0 * np.maximum(1.0 - s, 0.0),
)
# At the kink, s = 1, the derivative is taken from the side where the loss is zero.
HINGE = _of_margin("hinge", lambda s: np.maximum(1.0 - s, 0.0), lambda s: np.where(s < 1.0, -1.0, 0.0))
# Binary cross-entropy of the logit s (eq. 17); natural logarithm, without the paper's factor 1/log 2.
LOGISTIC = _of_margin("logistic", lambda s: np.logaddexp(0.0, -s), lambda s: -expit(-s))
# Targets 1 and 0, as in regression on the indicator matrix.
SQUARED_ERROR = Loss(
    "squared-error", lambda s: (1.0 - s) ** 2, lambda s: s**2, lambda s: 2.0 * (s - 1.0), lambda s: 2.0 * s
)

LOSSES = {loss.name: loss for loss in (SQUARED_HINGE, HINGE, LOGISTIC, SQUARED_ERROR)}


def loss_named(name: str) -> Loss:
    """The loss of this name: `squared-hinge`, `hinge`, `logistic` or `squared-error`."""
    if name not in LOSSES:
        raise ParameterError(unknown("loss", str(name), LOSSES))
    return LOSSES[name]


def weighted_loss(
    loss: Loss, scores: ArrayLike, Y: Any, own: ArrayLike, opposite: ArrayLike, *, bounded: bool = False
) -> Floats:
    """The loss of each (point, label): own l+ + opposite l- where y = 1, l- where y = 0; sum it as you need.

    scores: (n, L). Y: (n, L), dense or sparse 0/1. own, opposite: one factor a label, from a weighting.
    bounded: a term below 0, which only the unbiased weighting has, counts as 0; what is trained with it can then not
    run away, at the price of some bias where a noted label scores high.
    """
    terms = _weighted(loss.positive, loss.negative, scores, Y, own, opposite)
    return np.maximum(terms, 0.0) if bounded else terms


def weighted_gradient(loss: Loss, scores: ArrayLike, Y: Any, own: ArrayLike, opposite: ArrayLike) -> Floats:
    """The derivative of `weighted_loss` by the scores, (n, L)."""
    return _weighted(loss.positive_gradient, loss.negative_gradient, scores, Y, own, opposite)


def _weighted(plus: Part, minus: Part, scores: ArrayLike, Y: Any, own: ArrayLike, opposite: ArrayLike) -> Floats:
    s = np.asarray(scores, dtype=np.float64)
    y = np.asarray(Y.toarray() if sparse.issparse(Y) else Y)
    if s.shape != y.shape:
        raise ParameterError(f"scores have the shape {s.shape}, but Y has {y.shape}")
    negative = minus(s)
    noted = np.asarray(own) * plus(s) + np.asarray(opposite) * negative
    return np.where(y > 0, noted, negative)
