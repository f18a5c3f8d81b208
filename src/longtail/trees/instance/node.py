"""Kernels for one node of a tree: its split and its hyperplane, or the labels of a leaf.

A node gathers the rows of its own points only, and numbers their labels and features from 0. Buffers of D and L
elements are allocated once per tree, and every kernel clears what it used. So the cost of a node depends on its points
alone.
"""

from __future__ import annotations

import numpy as np

from longtail.core.compiled import copy_to, njit
from longtail.core.topk import offer
from longtail.linear.l1_logistic import l1_logistic, may_have_weight
from longtail.linear.order import shuffle
from longtail.trees.instance.ndcg import alternate

# Loose on purpose: points follow whatever hyperplane is found, so an exact minimum gains nothing. These are the limits
# of the authors' FastXML.
_TOLERANCE, _MAX_NEWTON, _MAX_PASSES = 0.01, 10, 10


@njit(cache=True, nogil=True)
def split(points, X, labels, C, bias, buffers, state):
    """Return a hyperplane that divides these points.

    Parameters
    ----------
    points : array of int32
        Points of the node.
    X : (indptr, indices, data)
        Features of all points.
    labels : (indptr, indices, gains)
        Labels of all points, with gains as in `alternate`.
    C : float
        As in `GrowOptions`.
    bias : float
        As in `GrowOptions`.
    buffers : tuple of arrays
        From `make_buffers`.
    state : (1,) array of uint64
        Random state; advanced.

    Returns
    -------
    (features, weights, intercept, right)
        `right` is True for points that go right. It is the same for all points if they cannot be divided.
    """
    pushes, of_feature, of_label, _ = buffers
    right = np.zeros(points.shape[0], np.bool_)
    nothing = np.empty(0, np.int32), np.empty(0, np.float32), np.float32(0), right
    own, n_labels = _gather_labels(points, labels, of_label)
    if own[1].shape[0] == n_labels * points.shape[0]:
        return nothing  # all points have the same labels: dividing them cannot change a prediction
    sides = np.ones(points.shape[0], np.float32)
    sides[: points.shape[0] // 2] = np.float32(-1)
    shuffle(sides, sides.shape[0], state)
    alternate(own, sides)
    n_right = (sides > 0).sum()
    if n_right == 0 or n_right == sides.shape[0]:
        return nothing
    # Both sides weigh the same in the loss, whatever their size. This keeps trees balanced; the authors do the same.
    cost_right = np.float32(C * sides.shape[0] / n_right)
    cost_left = np.float32(C * sides.shape[0] / (sides.shape[0] - n_right))
    costs = np.where(sides > 0, cost_right, cost_left)
    features, columns = _gather_columns(points, X, sides, costs, bias, pushes, of_feature)
    w = l1_logistic(columns, sides, costs, _TOLERANCE, _MAX_NEWTON, _MAX_PASSES, state)
    intercept = w[-1] * bias
    copy_to(right, _margins(columns, w, points.shape[0]) > 0)
    used = np.flatnonzero(w[:-1])
    return features[used], w[used], intercept, right


@njit(cache=True, nogil=True)
def _gather_labels(points, labels, of_label):
    """Return the labels of the points with ids numbered from 0 by first appearance, and how many ids there are."""
    indptr, indices, gains = labels
    own_ptr = np.zeros(points.shape[0] + 1, np.int64)
    for i in range(points.shape[0]):
        own_ptr[i + 1] = own_ptr[i] + indptr[points[i] + 1] - indptr[points[i]]
    ids, own_gains = np.empty(own_ptr[-1], np.uint32), np.empty(own_ptr[-1], np.float32)
    n_labels, q = 0, 0
    for i in points:
        for p in range(indptr[i], indptr[i + 1]):
            label = indices[p]
            if of_label[label] < 0:
                of_label[label] = n_labels
                n_labels += 1
            ids[q], own_gains[q] = of_label[label], gains[p]
            q += 1
    for i in points:
        for p in range(indptr[i], indptr[i + 1]):
            of_label[indices[p]] = -1
    return (own_ptr, ids, own_gains), n_labels


@njit(cache=True, nogil=True)
def _gather_columns(points, X, sides, costs, bias, pushes, of_feature):
    """Return the features that can have a weight (see l1_logistic), sorted, and their columns; the last is the bias."""
    indptr, indices, data = X
    features = _promising(points, X, sides, costs, pushes, of_feature)
    n, m = points.shape[0], features.shape[0]
    ptr = np.zeros(m + 2, np.int64)
    for j in range(m):
        ptr[j + 1] = ptr[j] + of_feature[features[j]]
        of_feature[features[j]] = j + 1  # from here on the column of the feature, counted from 1
    ptr[m + 1] = ptr[m] + n
    rows, values = np.empty(ptr[-1], np.uint32), np.empty(ptr[-1], np.float32)
    filled = ptr[:-1].copy()
    for i in range(n):
        for p in range(indptr[points[i]], indptr[points[i] + 1]):
            j = of_feature[indices[p]] - 1
            if j >= 0 and data[p] != 0:
                rows[filled[j]], values[filled[j]] = i, data[p]
                filled[j] += 1
    for j in range(m):
        of_feature[features[j]] = 0
    copy_to(rows[ptr[m] :], np.arange(n))
    values[ptr[m] :] = bias
    return features, (ptr, rows, values)


@njit(cache=True, nogil=True)
def _promising(points, X, sides, costs, pushes, of_feature):
    """Return the features that can have a weight, sorted; set `of_feature` to the number of points that have each."""
    indptr, indices, data = X
    n_entries = 0
    for i in points:
        n_entries += indptr[i + 1] - indptr[i]
    seen = np.empty(min(n_entries, of_feature.shape[0]), np.int32)
    n_seen = 0
    for i in range(points.shape[0]):
        for p in range(indptr[points[i]], indptr[points[i] + 1]):
            if data[p] == 0:
                continue
            feature, push = indices[p], sides[i] * costs[i] * data[p]
            if of_feature[feature] == 0:
                seen[n_seen] = feature
                n_seen += 1
            of_feature[feature] += 1
            pushes[feature, 0 if push > 0 else 1] += abs(push)
    n_kept = 0
    for j in range(n_seen):
        feature = seen[j]
        kept = may_have_weight(pushes[feature, 0], pushes[feature, 1])
        pushes[feature] = 0
        if kept:
            seen[n_kept] = feature
            n_kept += 1
        else:
            of_feature[feature] = 0
    return np.sort(seen[:n_kept])


@njit(cache=True, nogil=True)
def _margins(columns, w, n):
    indptr, rows, values = columns
    margins = np.zeros(n, np.float32)
    for j in range(w.shape[0]):
        if w[j] != 0:
            for p in range(indptr[j], indptr[j + 1]):
                margins[rows[p]] += w[j] * values[p]
    return margins


@njit(cache=True, nogil=True)
def leaf(points, labels, label_weights, n_kept, buffers):
    """Return the `n_kept` largest entries, as (ids, values), of the mean label vector times the label weights."""
    indptr, indices, _ = labels
    counts = buffers[3]
    n_kept = min(n_kept, counts.shape[0])
    for i in points:
        for p in range(indptr[i], indptr[i + 1]):
            counts[indices[p]] += 1
    ids, values = np.full(n_kept, -1, np.int32), np.empty(n_kept, np.float32)
    for i in points:
        for p in range(indptr[i], indptr[i + 1]):
            label = indices[p]
            if counts[label] > 0:
                offer(label, label_weights[label] * counts[label] / np.float32(points.shape[0]), ids, values)
                counts[label] = 0
    kept = ids[ids >= 0]
    order = np.argsort(kept)
    return kept[order], values[: kept.shape[0]][order]


def make_buffers(n_features, n_labels):
    """Allocate pushes of features (up, down), positions of features, positions of labels, and counts of labels."""
    return (
        np.zeros((n_features, 2), np.float32),
        np.zeros(n_features, np.int32),
        np.full(n_labels, -1, np.int32),
        np.zeros(n_labels, np.int32),
    )
