"""The second ranking of PfastreXML: the labels that the trees propose to a point, by alpha log P + (1 - alpha) log s
(Jain et al. 2016, section 6), as kernels. Tail classifiers give s: means of the labels' points, or linear classifiers.

A score is bounded from above before any product is made. Labels are taken in the order of their bounds, until none that
is left can be among the k best; the result is the same as for all.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from longtail.core.topk import offer
from longtail.trees.instance.products import add_product

_ZERO, _ONE, _HALF = np.float32(0), np.float32(1), np.float32(0.5)
_ROUNDING = np.float32(1e-3)  # far more than float32 sums are off by


@njit(cache=True, nogil=True)
def rank_by_means(proposed, shares, point, squared_norm, tail, labels, scores):
    """Offer the proposed labels with s_l = 1 / (1 + exp(gamma/2 |x - mu_l|^2)); |x - mu| is at least ||x| - |mu||."""
    (c_ptr, c_indices, c_data), squared_norms, alpha, gamma = tail
    bounds = np.empty(proposed.shape[0], np.float32)
    for q in range(proposed.shape[0]):
        least = np.sqrt(squared_norm) - np.sqrt(squared_norms[proposed[q]])
        bounds[q] = alpha * np.log(shares[q]) + (_ONE - alpha) * _log_chance(least * least, gamma)
    for q in np.argsort(-bounds):
        if _too_low(bounds[q], labels, scores):
            break
        label = proposed[q]
        here = slice(c_ptr[label], c_ptr[label + 1])
        dot = add_product(_ZERO, point, c_indices[here], c_data[here])
        squared_distance = squared_norm - dot - dot + squared_norms[label]
        score = alpha * np.log(shares[q]) + (_ONE - alpha) * _log_chance(squared_distance, gamma)
        offer(label, score, labels, scores)


@njit(cache=True, nogil=True)
def rank_by_margins(proposed, shares, point, tail, labels, scores):
    """Offer the proposed labels with log s_l = -[1 - w_l.x]+^2, the logarithm that label trees take for the chance of a
    classifier trained with the squared hinge (Prabhu et al. 2018, section 4.3); it is at most 0."""
    (w_ptr, w_indices, w_data), intercepts, alpha = tail
    bounds = alpha * np.log(shares)
    for q in np.argsort(-bounds):
        if _too_low(bounds[q], labels, scores):
            break
        label = proposed[q]
        here = slice(w_ptr[label], w_ptr[label + 1])
        short = max(_ONE - add_product(intercepts[label], point, w_indices[here], w_data[here]), _ZERO)
        offer(label, bounds[q] - (_ONE - alpha) * short * short, labels, scores)


@njit(cache=True, nogil=True, inline="always")
def _too_low(bound, labels, scores):
    last = labels.shape[0] - 1
    return labels[last] >= 0 and bound + _ROUNDING * (_ONE + abs(bound)) < scores[last]


@njit(cache=True, nogil=True, inline="always")
def _log_chance(squared_distance, gamma):
    """log(1 / (1 + exp(gamma/2 d^2))), without overflow."""
    z = _HALF * gamma * squared_distance
    return -(max(z, _ZERO) + np.log1p(np.exp(-abs(z))))
