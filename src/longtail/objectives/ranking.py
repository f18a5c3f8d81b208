"""Losses that compare the labels of one point with each other, so that they do not decompose over labels.

These are the definitions: NumPy, one point at a time, as the papers write them. The torch forms of neural/losses.py are
tested against them. s: the scores of a point's labels; y: which of them are noted; own: a factor for each label, from a
weighting, that counts where it is noted. A point without noted labels has nothing to rank: its loss is 0.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import logsumexp

Floats = NDArray[np.float64]


def margin_loss(scores: ArrayLike, y: ArrayLike, own: ArrayLike, *, margin: float = 1.0) -> float:
    """sum_{p in y} own_p sum_{n not in y} [s_n - s_p + c]+ (Guo et al. 2019, eq. 1), c = `margin`."""
    s, noted, own = _parts(scores, y, own)
    return float(sum(own[p] * np.maximum(s[~noted] - s[p] + margin, 0.0).sum() for p in np.flatnonzero(noted)))


def softmax_cross_entropy(scores: ArrayLike, y: ArrayLike, own: ArrayLike) -> float:
    """sum_{p in y} own_p (log(exp s_p + sum_{n not in y} exp s_n) - s_p).

    The usual cross-entropy of one label against all that are not noted: the other noted labels of the point are left
    out of the sum, so that no noted label is pushed down by another.
    """
    s, noted, own = _parts(scores, y, own)
    return float(sum(own[p] * (logsumexp(np.append(s[~noted], s[p])) - s[p]) for p in np.flatnonzero(noted)))


def negative_mining_loss(
    scores: ArrayLike, y: ArrayLike, own: ArrayLike, *, hardest: int, margin: float = 1.0
) -> float:
    """The margin loss over the `hardest` labels with the highest scores among those that are not noted, of those at
    hand (stochastic negative mining, Reddi et al. 2019, eq. 3)."""
    s, noted, own = _parts(scores, y, own)
    negatives = np.sort(s[~noted])[::-1][:hardest]
    return float(sum(own[p] * np.maximum(negatives - s[p] + margin, 0.0).sum() for p in np.flatnonzero(noted)))


def grank_loss(scores: ArrayLike, y: ArrayLike, own: ArrayLike) -> float:
    """log(1 + sum_{n not in y} exp(s_n) * sum_{p in y} own_p exp(-s_p)) (X-GRank, eq. 4, with weights)."""
    s, noted, own = _parts(scores, y, own)
    if not noted.any() or noted.all():
        return 0.0
    return float(np.logaddexp(0.0, logsumexp(s[~noted]) + logsumexp(-s[noted], b=own[noted])))


def _parts(scores: ArrayLike, y: ArrayLike, own: ArrayLike) -> tuple[Floats, NDArray[np.bool_], Floats]:
    return np.asarray(scores, np.float64), np.asarray(y, bool), np.asarray(own, np.float64)
