"""The second ranking of PfastreXML: the labels that the trees propose to a point, by alpha log P + (1 - alpha) log s
(Jain et al. 2016, section 6), as kernels. Tail classifiers give s: one centre a label, or all its points.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from longtail.core.topk import offer

_ZERO, _ONE, _HALF = np.float32(0), np.float32(1), np.float32(0.5)
_ROUNDING = np.float32(1e-3)  # far more than float32 sums are off by


@njit(cache=True, nogil=True)
def rank_by_means(proposed, shares, dense, squared_norm, tail, labels, scores):
    """Offer the proposed labels with s_l = 1 / (1 + exp(gamma/2 |x - mu_l|^2)).

    |x - mu| is at least ||x| - |mu||, which bounds a score from above before any dot product is made. Labels are taken
    in the order of their bounds, until none that is left can be among the k best; the result is the same as for all.
    """
    (c_ptr, c_indices, c_data), squared_norms, alpha, gamma = tail
    bounds = np.empty(proposed.shape[0], np.float32)
    for q in range(proposed.shape[0]):
        least = np.sqrt(squared_norm) - np.sqrt(squared_norms[proposed[q]])
        bounds[q] = alpha * np.log(shares[q]) + (_ONE - alpha) * _log_chance(least * least, gamma)
    last = labels.shape[0] - 1
    for q in np.argsort(-bounds):
        if labels[last] >= 0 and bounds[q] + _ROUNDING * (_ONE + abs(bounds[q])) < scores[last]:
            break
        label = proposed[q]
        dot = _ZERO
        for p in range(c_ptr[label], c_ptr[label + 1]):
            dot += c_data[p] * dense[c_indices[p]]
        squared_distance = squared_norm - dot - dot + squared_norms[label]
        score = alpha * np.log(shares[q]) + (_ONE - alpha) * _log_chance(squared_distance, gamma)
        offer(label, score, labels, scores)


@njit(cache=True, nogil=True)
def make_point_buffers(n_points, n_labels):
    """(weights of points, who has one, weights of labels, their best log-chance, their chances relative to that)."""
    return (
        np.zeros(n_points, np.float32),
        np.empty(n_points, np.int32),
        np.zeros(n_labels, np.float32),
        np.empty(n_labels, np.float32),
        np.empty(n_labels, np.float32),
    )


@njit(cache=True, nogil=True)
def rank_by_points(proposed, shares, reached, dense, squared_norm, tail, buffers, labels, scores):
    """Offer the proposed labels with s_l = mean of 1 / (1 + exp(gamma/2 |x - x_i|^2)) over the training points i that
    carry l and are in one of the leaves that x reached; a point counts 1 / (size of the leaf) for each such leaf.

    Sums are kept relative to their largest term, so that points far from all others do not round to 0.
    """
    leaf_points, points, squared_norms, (y_ptr, y_labels), alpha, gamma = tail
    weights, near, masses, best, sums = buffers
    n_near = _weigh_neighbours(reached, leaf_points, weights, near)
    for q in range(n_near):
        i = near[q]
        log_chance = _log_chance(_squared_distance(i, points, squared_norms[i], dense, squared_norm), gamma)
        for p in range(y_ptr[i], y_ptr[i + 1]):
            label = y_labels[p]
            if masses[label] == 0:
                best[label], sums[label] = log_chance, _ZERO
            elif log_chance > best[label]:
                sums[label] *= np.exp(best[label] - log_chance)
                best[label] = log_chance
            sums[label] += weights[i] * np.exp(log_chance - best[label])
            masses[label] += weights[i]
        weights[i] = 0
    for q in range(proposed.shape[0]):
        label = proposed[q]
        log_mean = best[label] + np.log(sums[label] / masses[label])
        offer(label, alpha * np.log(shares[q]) + (_ONE - alpha) * log_mean, labels, scores)
    for q in range(n_near):
        for p in range(y_ptr[near[q]], y_ptr[near[q] + 1]):
            masses[y_labels[p]] = 0


@njit(cache=True, nogil=True)
def _weigh_neighbours(reached, leaf_points, weights, near):
    """Add up each point's weights over the leaves; writes the points into `near`, and returns how many they are."""
    ptr, members, shares = leaf_points
    n_near = 0
    for node in reached:
        for p in range(ptr[node], ptr[node + 1]):
            i = members[p]
            if weights[i] == 0:
                near[n_near] = i
                n_near += 1
            weights[i] += shares[p]
    return n_near


@njit(cache=True, nogil=True)
def _squared_distance(i, points, squared_norm_i, dense, squared_norm):
    ptr, indices, data = points
    dot = _ZERO
    for p in range(ptr[i], ptr[i + 1]):
        dot += data[p] * dense[indices[p]]
    return squared_norm - dot - dot + squared_norm_i


@njit(cache=True, nogil=True, inline="always")
def _log_chance(squared_distance, gamma):
    """log(1 / (1 + exp(gamma/2 d^2))), without overflow."""
    z = _HALF * gamma * squared_distance
    return -(max(z, _ZERO) + np.log1p(np.exp(-abs(z))))
