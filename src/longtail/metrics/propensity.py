"""Propensity-scored metrics: every true label counts 1/p_l, to make up for labels that are often missing.

Jain, Prabhu and Varma 2016 (KDD), table 1(a); Qaraei et al. 2021 (WWW), eqs. 25-29. Common to all: ranking, ties and
short rows as in `longtail.metrics.ranking`. `normalized=True` is what the field reports (2021, eq. 29): the sum of the
points' gains over the sum of the gains of the best ranking, which sorts the true labels of a point by decreasing
1/p_l. This is a ratio of sums, not a mean of ratios, and is no longer unbiased; `normalized=False` is the mean over
points (2021, eq. 28) and may exceed 1.
"""

from __future__ import annotations

import numpy as np

from longtail.metrics.matches import Matches, discounts
from longtail.metrics.pointwise import Terms, divide


def ps_precision(matches: Matches, k: int, *, normalized: bool = True) -> Terms:
    """Compute PSP@k, propensity-scored precision.

    Parameters
    ----------
    matches : Matches
        Predictions matched with true labels.
    k : int
        Cut-off.
    normalized : bool, default True
        Divide by the value of the best ranking.

    Returns
    -------
    Terms

    Notes
    -----
    PSP@k = 1/k sum_{l in top k} y_l / p_l (2021, eq. 25). Divisor: k, then the mean over points; if normalized, the
    same of the best ranking. A point without labels adds 0 to both sums. Without normalization it is an unbiased
    estimate of P@k on the complete labels (2016, theorem 4.1).
    """
    best = matches.best_gain_at(k) / k if normalized else None
    return Terms(matches.gain_at(k) / k, best, (0.0, matches.largest_inverse))


def ps_ndcg(matches: Matches, k: int, *, normalized: bool = True) -> Terms:
    """Compute PSnDCG@k, propensity-scored nDCG.

    Parameters
    ----------
    matches : Matches
        Predictions matched with true labels.
    k : int
        Cut-off.
    normalized : bool, default True
        Divide by the value of the best ranking.

    Returns
    -------
    Terms

    Notes
    -----
    PSnDCG@k = sum_{l in top k} y_l / (p_l log2(r_l + 1)) / sum_{r <= min(k, |y|)} 1/log2(r + 1) (2021, eqs. 26, 27).
    Divisor: the DCG of as many labels as the point has, up to k; if normalized, the same of the best ranking. A point
    without labels adds 0 to both sums.
    """
    ideal = matches.ideal_dcg_at(k)
    best = divide(matches.best_discounted_gain_at(k), ideal) if normalized else None
    return Terms(divide(matches.discounted_gain_at(k), ideal), best, (0.0, matches.largest_inverse))


def ps_recall(matches: Matches, k: int, *, normalized: bool = True) -> Terms:
    """Compute PSR@k, propensity-scored recall.

    Parameters
    ----------
    matches : Matches
        Predictions matched with true labels.
    k : int
        Cut-off.
    normalized : bool, default True
        Divide by the value of the best ranking.

    Returns
    -------
    Terms

    Notes
    -----
    PSR@k = 1/|y| sum_{l in top k} y_l / p_l, with |y| the number of observed labels. Divisor: |y|; if normalized, the
    same of the best ranking. A point without labels adds 0 to both sums. Unbiased estimates of recall need more than
    p_l: see `unbiased_recall`.
    """
    size = matches.n_relevant.astype(np.float64)
    best = divide(matches.best_gain_at(k), size) if normalized else None
    return Terms(divide(matches.gain_at(k), size), best, (0.0, matches.largest_inverse))


def unbiased_precision(matches: Matches, k: int) -> Terms:
    """Estimate P@k on the complete labels, without bias.

    Parameters
    ----------
    matches : Matches
        Predictions matched with true labels.
    k : int
        Cut-off.

    Returns
    -------
    Terms

    Notes
    -----
    1/k sum_{l in top k} y_l / p_l, the mean over points (2016, table 1(a) and theorem 4.1). Divisor: k. A point without
    labels counts as 0. May exceed 1.
    """
    return ps_precision(matches, k, normalized=False)


def unbiased_ndcg(matches: Matches, k: int) -> Terms:
    """Estimate DCG@k on the complete labels, over the DCG of k labels, without bias.

    Parameters
    ----------
    matches : Matches
        Predictions matched with true labels.
    k : int
        Cut-off.

    Returns
    -------
    Terms

    Notes
    -----
    sum_{l in top k} y_l / (p_l log2(r_l + 1)) / sum_{r <= k} 1/log2(r + 1), the mean over points (2016, table 1(a) and
    theorem 4.1). Divisor: the DCG of k labels for every point. It does not depend on |y|, of which only a part is
    observed; so this is not an estimate of `ndcg`. A point without labels counts as 0. May exceed 1.
    """
    return Terms(matches.discounted_gain_at(k) / discounts(k).sum(), None, (0.0, matches.largest_inverse))
