"""Kernels for the second ranking of PfastreXML.

The labels that the trees propose for a point are ranked by alpha log P + (1 - alpha) log s (Jain et al. 2016, section
6). Tail classifiers give s: means of the labels' points, or linear classifiers.

Scores are bounded from above first, which needs no product. Labels are then scored in the order of their bounds, until
no remaining label can be among the k best. The result is the same as if all were scored.
"""

from __future__ import annotations

import numpy as np

from longtail.core.compiled import njit
from longtail.core.topk import offer
from longtail.trees.instance.products import add_product

_ZERO, _ONE, _HALF = np.float32(0), np.float32(1), np.float32(0.5)
_ROUNDING = np.float32(1e-3)  # far above the rounding error of float32 sums


@njit(cache=True, nogil=True)
def rank_by_means(proposed, shares, point, squared_norm, tail, labels, scores):
    """Rank the proposed labels with s_l = 1 / (1 + exp(gamma/2 |x - mu_l|^2)), bounded by |x - mu| >= ||x| - |mu||."""
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
    """Rank the proposed labels with log s_l = -[1 - w_l.x]+^2, which is at most 0.

    Label trees use the same log probability for classifiers with the squared hinge loss (Prabhu et al. 2018, section
    4.3).
    """
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
    """Return log(1 / (1 + exp(gamma/2 d^2))) without overflow."""
    z = _HALF * gamma * squared_distance
    return -(max(z, _ZERO) + np.log1p(np.exp(-abs(z))))
