"""Unbiased estimates of metrics on the complete labels for which propensities alone are not enough.

Jain, Prabhu and Varma 2016 (KDD), section 4 and table 1(b). y* are the complete labels of a point (fixed, not random),
y the observed ones, each observed with probability p_l. Recall, MRR, ADG and the F-score divide by |y*|, which the
observed labels do not reveal. Either of two assumptions solves this, and each is a class here:

- `KnownCounts`: |y*| is known for each point (faces counted in a photo, names unknown); theorem 4.2:
  sum_l y_l / (p_l g*(y*)) L_l.
- `KnownRetention`: labels are observed with probability p_l = g_l / |y*| with known g_l; corollary 4.2.1:
  sum_l y_l / g_l L_l.

Ranks are those among the predictions; a label that is not predicted has gain 0, so the estimate is for the ranking cut
there (rank all labels for the full one). Ties and short rows as in `longtail.metrics.ranking`. A point without
observed labels counts as 0. Values may exceed 1. Each function returns the mean over points.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from longtail.errors import ParameterError
from longtail.metrics.matches import Floats, Matches, discounts
from longtail.metrics.pointwise import Terms, divide


@dataclass(frozen=True, eq=False)
class KnownCounts:
    """Assumption that |y*_i| is known for each point (theorem 4.2); the matches need inverse propensities.

    Parameters
    ----------
    complete_counts : (n,) array_like
        Number of complete labels per point.
    """

    complete_counts: ArrayLike

    def checked(self, matches: Matches) -> Floats:
        """Return the counts as an array, or raise ParameterError if they contradict the observed labels."""
        counts = np.asarray(self.complete_counts, dtype=np.float64)
        if counts.shape != (matches.n_points,):
            raise ParameterError(f"complete_counts has shape {counts.shape}, but there are {matches.n_points} points")
        low = np.flatnonzero(~(counts >= matches.n_relevant))
        if low.size:
            i = int(low[0])
            raise ParameterError(
                f"point {i} has {matches.n_relevant[i]} observed labels, but complete_counts says {counts[i]:g}; "
                "complete labels include the observed ones"
            )
        return counts

    def average(self, matches: Matches, gains: Floats) -> Terms:
        """Return the mean over points of sum_l y_l / (p_l |y*|) gain(r_l)."""
        totals = (matches.of_hits(matches.inverse) * gains).sum(axis=1)
        # A point's gains sum to at most |y*| max 1/p, hence the bound after division.
        return Terms(divide(totals, self.checked(matches)), None, (0.0, matches.largest_inverse))


@dataclass(frozen=True, eq=False)
class KnownRetention:
    """Assumption that p_il = g_l / |y*_i| with known g_l > 0 (corollary 4.2.1); needs no propensities.

    Parameters
    ----------
    retention : (L,) array_like
        g_l per label.
    """

    retention: ArrayLike

    def average(self, matches: Matches, gains: Floats) -> Terms:
        """Return the mean over points of sum_l y_l / g_l gain(r_l)."""
        g = np.asarray(self.retention, dtype=np.float64)
        if g.ndim != 1 or g.size < matches.truth.shape[1]:
            raise ParameterError(f"retention has shape {g.shape}, but Y has {matches.truth.shape[1]} labels")
        if not (np.isfinite(g) & (g > 0)).all():
            raise ParameterError("every entry of retention must be a number greater than 0")
        inverse = 1.0 / g
        totals = (matches.of_hits(inverse) * gains).sum(axis=1)
        return Terms(totals, None, (0.0, float(np.sum(gains) * inverse.max(initial=0.0))))


Assumption = KnownCounts | KnownRetention


def unbiased_recall(matches: Matches, k: int, assumption: Assumption) -> Terms:
    """Estimate recall@k on the complete labels, without bias.

    Parameters
    ----------
    matches : Matches
        Predictions matched with true labels.
    k : int
        Cut-off.
    assumption : KnownCounts or KnownRetention
        What is known about the complete labels.

    Returns
    -------
    Terms

    Notes
    -----
    Estimates 1/|y*| sum_l y*_l [r_l <= k]. Divisor: |y*|, from the assumption.
    """
    return assumption.average(matches, _gains(matches, k, np.ones_like))


def unbiased_mrr(matches: Matches, k: int, assumption: Assumption) -> Terms:
    """Estimate the mean reciprocal rank on the complete labels, without bias.

    Parameters
    ----------
    matches : Matches
        Predictions matched with true labels.
    k : int
        Cut-off.
    assumption : KnownCounts or KnownRetention
        What is known about the complete labels.

    Returns
    -------
    Terms

    Notes
    -----
    Estimates 1/|y*| sum_l y*_l / r_l over the top k. Divisor: |y*|. This mean reciprocal rank averages over the true
    labels of a point (2016, table 1(b)); that of information retrieval uses only the first true label.
    """
    return assumption.average(matches, _gains(matches, k, lambda ranks: 1.0 / ranks))


def unbiased_adg(matches: Matches, k: int, assumption: Assumption) -> Terms:
    """Estimate the average discounted gain on the complete labels, without bias.

    Parameters
    ----------
    matches : Matches
        Predictions matched with true labels.
    k : int
        Cut-off.
    assumption : KnownCounts or KnownRetention
        What is known about the complete labels.

    Returns
    -------
    Terms

    Notes
    -----
    Estimates 1/|y*| sum_l y*_l / log2(r_l + 1) over the top k. Divisor: |y*|.
    """
    return assumption.average(matches, _gains(matches, k, lambda ranks: discounts(ranks.size)))


def unbiased_f(matches: Matches, k: int, assumption: KnownCounts) -> Terms:
    """Estimate the F-score on the complete labels, without bias.

    Parameters
    ----------
    matches : Matches
        Predictions matched with true labels.
    k : int
        Cut-off.
    assumption : KnownCounts
        Number of complete labels per point.

    Returns
    -------
    Terms

    Notes
    -----
    Estimates F = 2 sum_l y*_l [r_l <= k] / (|y*| + number of predictions). Divisor: |y*| plus the labels predicted
    among the top k (fewer than k in a short row). It depends on the prediction, so corollary 4.2.1 does not apply and
    only `KnownCounts` works. A point without predictions and labels counts as 0.
    """
    if not isinstance(assumption, KnownCounts):
        raise ParameterError("the F-score has an unbiased estimate only if |y*| is known; pass KnownCounts(...)")
    n_predicted = (matches.labels[:, : matches.column(k) + 1] >= 0).sum(axis=1)
    total = assumption.checked(matches) + n_predicted
    return Terms(divide(2.0 * matches.gain_at(k), total), None, (0.0, matches.largest_inverse))


def unbiased_hamming(matches: Matches, k: int) -> Terms:
    """Estimate the Hamming loss on the complete labels, without bias; lower is better.

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
    Estimates sum_l |y*_l - yhat_l| by sum_l yhat_l + y_l / p_l (1 - 2 yhat_l) (2016, theorem 4.4), with yhat the labels
    among the top k. Divisor: none, it is the number of wrong labels per point (not divided by L). A point without
    labels counts its predictions. It can be negative: a hit counts 1 - 1/p_l.
    """
    inverse = matches.inverse
    n_predicted = (matches.labels[:, : matches.column(k) + 1] >= 0).sum(axis=1)
    relevant = matches.truth @ inverse[: matches.truth.shape[1]]
    terms: Floats = n_predicted + relevant - 2.0 * matches.gain_at(k)
    # Worst cases: k hits of the largest weight; k false labels while all the others are true and missed.
    largest, n_labels = matches.largest_inverse, matches.n_labels
    return Terms(terms, None, (k * (1.0 - largest), k + n_labels * largest))


def _gains(matches: Matches, k: int, of_ranks: Callable[[Floats], Floats]) -> Floats:
    """Return the gain per column: that of its rank up to k, 0 beyond."""
    ranks = np.arange(1, matches.labels.shape[1] + 1, dtype=np.float64)
    gains = of_ranks(ranks)
    gains[matches.column(k) + 1 :] = 0.0
    return gains
