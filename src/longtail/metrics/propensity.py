"""Propensity-scored metrics: every true label counts 1/p_l, so that labels which are often missing are not forgotten.

Jain, Prabhu and Varma 2016 (KDD), table 1(a); Qaraei et al. 2021 (WWW), eqs. 25-29. Common to all: ranking, ties and
short rows as in `longtail.metrics.ranking`. `normalized=True` is what the field reports (2021, eq. 29): the sum of the
points' gains over the sum of the gains of the best ranking, which puts a point's true labels in the order of falling
1/p_l. That is a ratio of sums, not a mean of ratios, and it is no longer unbiased; `normalized=False` is the mean over
points (2021, eq. 28) and may exceed 1.
"""

from __future__ import annotations

import numpy as np

from longtail.metrics.matches import Matches, discounts
from longtail.metrics.pointwise import Terms, divide


def ps_precision(matches: Matches, k: int, *, normalized: bool = True) -> Terms:
    """PSP@k = 1/k sum_{l in top k} y_l / p_l (2021, eq. 25).

    Divisor: k, then the mean over points; normalized: the same of the best ranking. A point without labels adds 0 to
    both sums. Not normalized it is an unbiased estimate of P@k on the complete labels (2016, theorem 4.1).
    """
    best = matches.best_gain_at(k) / k if normalized else None
    return Terms(matches.gain_at(k) / k, best, (0.0, matches.largest_inverse))


def ps_ndcg(matches: Matches, k: int, *, normalized: bool = True) -> Terms:
    """PSnDCG@k = sum_{l in top k} y_l / (p_l log2(r_l + 1)) / sum_{r <= min(k, |y|)} 1/log2(r + 1) (2021, eqs. 26, 27).

    Divisor: the DCG of as many labels as the point has, up to k; normalized: the same of the best ranking. A point
    without labels adds 0 to both sums.
    """
    ideal = matches.ideal_dcg_at(k)
    best = divide(matches.best_discounted_gain_at(k), ideal) if normalized else None
    return Terms(divide(matches.discounted_gain_at(k), ideal), best, (0.0, matches.largest_inverse))


def ps_recall(matches: Matches, k: int, *, normalized: bool = True) -> Terms:
    """PSR@k = 1/|y| sum_{l in top k} y_l / p_l, with |y| the observed number of labels.

    Divisor: |y|; normalized: the same of the best ranking. A point without labels adds 0 to both sums. Unbiased
    estimates of recall need more knowledge than p_l: see `unbiased_recall`.
    """
    size = matches.n_relevant.astype(np.float64)
    best = divide(matches.best_gain_at(k), size) if normalized else None
    return Terms(divide(matches.gain_at(k), size), best, (0.0, matches.largest_inverse))


def unbiased_precision(matches: Matches, k: int) -> Terms:
    """1/k sum_{l in top k} y_l / p_l, the mean over points: an unbiased estimate of P@k on the complete labels.

    2016, table 1(a) and theorem 4.1. Divisor: k. A point without labels counts as 0. May exceed 1.
    """
    return ps_precision(matches, k, normalized=False)


def unbiased_ndcg(matches: Matches, k: int) -> Terms:
    """sum_{l in top k} y_l / (p_l log2(r_l + 1)) / sum_{r <= k} 1/log2(r + 1), the mean over points.

    2016, table 1(a) and theorem 4.1. Divisor: the DCG of k labels for every point. It does not look at |y|, of which
    only a part is observed; so this is an unbiased estimate of the complete labels' DCG over that divisor, and not of
    `ndcg`. A point without labels counts as 0. May exceed 1.
    """
    return Terms(matches.discounted_gain_at(k) / discounts(k).sum(), None, (0.0, matches.largest_inverse))
