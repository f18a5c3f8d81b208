"""Metrics on the observed labels as they are: precision, nDCG, recall, abandonment at k.

Common to all: the k best predictions in the order of `Predictions` (ties: lower label id first); in a row with fewer
than k predictions, the missing ones count as misses; every point has the same weight, points without labels included.
y_l = 1 for a true label, r_l = the rank of label l, |y| = the number of true labels.
"""

from __future__ import annotations

import numpy as np

from longtail.metrics.matches import Matches
from longtail.metrics.pointwise import Terms, divide


def precision(matches: Matches, k: int) -> Terms:
    """Compute P@k, the share of true labels among the top k.

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
    P@k = 1/k sum_{l in top k} y_l. Divisor: k, also if a point has fewer than k labels or predictions. A point without
    labels counts as 0.
    """
    return Terms(matches.hits_at(k) / k)


def ndcg(matches: Matches, k: int) -> Terms:
    """Compute nDCG@k, normalized discounted cumulative gain.

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
    nDCG@k = sum_{l in top k} y_l / log2(r_l + 1) / sum_{r <= min(k, |y|)} 1/log2(r + 1). Divisor: the DCG of a perfect
    ranking of that point, so 1 can always be reached. A point without labels counts as 0.
    """
    return Terms(divide(matches.dcg_at(k), matches.ideal_dcg_at(k)))


def recall(matches: Matches, k: int) -> Terms:
    """Compute R@k, the share of a point's true labels that are among the top k.

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
    R@k = 1/|y| sum_{l in top k} y_l. Divisor: |y|, also if it exceeds k (R@1 of a point with four labels is at most
    1/4). A point without labels counts as 0.
    """
    return Terms(divide(matches.hits_at(k).astype(np.float64), matches.n_relevant.astype(np.float64)))


def abandonment(matches: Matches, k: int) -> Terms:
    """Compute abandonment@k, the share of points with no true label among the top k; lower is better.

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
    A point without labels is abandoned. (napkinxc uses this name for the complement, the share with a hit.)
    """
    return Terms((matches.hits_at(k) == 0).astype(np.float64))
