"""Losses that compare the labels of a point with each other, so they do not decompose over labels.

These are the definitions: NumPy, one point at a time, as in the papers. The torch versions in neural/losses.py are
tested against them. s: scores of the labels of one point; y: which of them are observed; own: factor per label, from a
weighting, applied where the label is observed. A point without observed labels has nothing to rank: its loss is 0.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]


def margin_loss(scores: ArrayLike, y: ArrayLike, own: ArrayLike, *, margin: float = 1.0) -> float:
    """Return the pairwise margin loss of one point.

    Parameters
    ----------
    scores : (L,) array_like
        Scores s of the labels of one point.
    y : (L,) array_like of bool
        Observed labels.
    own : (L,) array_like
        Factor per label, from `Weighting.coefficients`.
    margin : float, default 1.0
        Margin c.

    Returns
    -------
    float

    Notes
    -----
    sum_{p in y} own_p sum_{n not in y} [s_n - s_p + c]+ (Guo et al. 2019, eq. 1).
    """
    s, observed, own = _parts(scores, y, own)
    return float(sum(own[p] * np.maximum(s[~observed] - s[p] + margin, 0.0).sum() for p in np.flatnonzero(observed)))


def softmax_cross_entropy(scores: ArrayLike, y: ArrayLike, own: ArrayLike) -> float:
    """Return the cross-entropy of each observed label against the labels that are not observed.

    Parameters
    ----------
    scores : (L,) array_like
        Scores s of the labels of one point.
    y : (L,) array_like of bool
        Observed labels.
    own : (L,) array_like
        Factor per label, from `Weighting.coefficients`.

    Returns
    -------
    float

    Notes
    -----
    sum_{p in y} own_p (log(exp s_p + sum_{n not in y} exp s_n) - s_p). The other observed labels of the point are left
    out of the sum, so that no observed label is pushed down by another.
    """
    s, observed, own = _parts(scores, y, own)
    from scipy.special import logsumexp  # here: it takes long to load, and predicting needs none of it

    return float(sum(own[p] * (logsumexp(np.append(s[~observed], s[p])) - s[p]) for p in np.flatnonzero(observed)))


def negative_mining_loss(
    scores: ArrayLike, y: ArrayLike, own: ArrayLike, *, hardest: int, margin: float = 1.0
) -> float:
    """Return the margin loss over the highest-scored labels that are not observed.

    Parameters
    ----------
    scores : (L,) array_like
        Scores s of the labels of one point.
    y : (L,) array_like of bool
        Observed labels.
    own : (L,) array_like
        Factor per label, from `Weighting.coefficients`.
    hardest : int
        Number of these labels.
    margin : float, default 1.0
        Margin c.

    Returns
    -------
    float

    Notes
    -----
    Stochastic negative mining (Reddi et al. 2019, eq. 3).
    """
    s, observed, own = _parts(scores, y, own)
    negatives = np.sort(s[~observed])[::-1][:hardest]
    return float(sum(own[p] * np.maximum(negatives - s[p] + margin, 0.0).sum() for p in np.flatnonzero(observed)))


def grank_loss(scores: ArrayLike, y: ArrayLike, own: ArrayLike) -> float:
    """Return the GRank loss of one point.

    Parameters
    ----------
    scores : (L,) array_like
        Scores s of the labels of one point.
    y : (L,) array_like of bool
        Observed labels.
    own : (L,) array_like
        Factor per label, from `Weighting.coefficients`.

    Returns
    -------
    float

    Notes
    -----
    log(1 + sum_{n not in y} exp(s_n) * sum_{p in y} own_p exp(-s_p)) (X-GRank, eq. 4, with weights).
    """
    s, observed, own = _parts(scores, y, own)
    if not observed.any() or observed.all():
        return 0.0
    from scipy.special import logsumexp  # here: it takes long to load, and predicting needs none of it

    return float(np.logaddexp(0.0, logsumexp(s[~observed]) + logsumexp(-s[observed], b=own[observed])))


def _parts(scores: ArrayLike, y: ArrayLike, own: ArrayLike) -> tuple[Floats, NDArray[np.bool_], Floats]:
    return np.asarray(scores, np.float64), np.asarray(y, bool), np.asarray(own, np.float64)
