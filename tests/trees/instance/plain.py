"""Forests in plain Python, for comparison with the kernels."""

from __future__ import annotations

import math

import numpy as np


def leaf_of(forest, root, x):
    """Return the leaf that a dense point reaches."""
    node = root
    while forest.children[node, 0] >= 0:
        margin = (forest.hyperplanes[[node]] @ x)[0] + forest.intercepts[node]
        node = forest.children[node, 1 if margin > 0 else 0]
    return node


def mean_of_leaves(forest, X):
    """Return, as (points, labels), the mean over the trees of the leaf that a point reaches."""
    rows = [sum(forest.leaves[[leaf_of(forest, root, x)]].toarray()[0] for root in forest.roots) for x in X]
    return np.array(rows) / forest.roots.size


def ranked_by_means(shares, X, Y, x, alpha, gamma):
    """Return the scores of one point's labels by the paper's formula, -inf for labels that the trees do not propose."""
    scores = np.full(Y.shape[1], -np.inf)
    for label in np.flatnonzero(shares):
        centre = X[Y[:, label] > 0].mean(axis=0)
        chance = 1 / (1 + math.exp(gamma / 2 * ((x - centre) ** 2).sum()))
        scores[label] = alpha * math.log(shares[label]) + (1 - alpha) * math.log(chance)
    return scores


def ranked_by_margins(shares, weights, intercepts, x, alpha):
    """Return the same with linear tail classifiers; weights are (labels, features)."""
    scores = np.full(shares.size, -np.inf)
    for label in np.flatnonzero(shares):
        margin = weights[label] @ x + intercepts[label]
        chance = math.exp(-(max(1 - margin, 0) ** 2))
        scores[label] = alpha * math.log(shares[label]) + (1 - alpha) * math.log(chance)
    return scores
