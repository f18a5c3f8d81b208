"""The problem of one rare label: a few hundred rows that stand for all training points.

A label with a handful of points is decided by these points and by the few negatives that resemble them. The other
negatives matter only together, so the label's problem has these rows, each with the bias:

positives        whole
near negatives   whole: the points that were found to score above -1 + `rare_kernels.MARGIN`
far sample       the same random points for every label, cut to the common features of the positives; each stands for
                 its share of all far points, and those without such a feature are one row with the bias only
feature rows     for each rarer feature of the positives, one row that has this feature only, with the root mean square
                 of its values, and weighs as much as all far points that have it

A single row for all far points does not work: their small slacks matter together.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from longtail.core.compiled import njit

_LEAST_COST = np.float32(1e-3)
F32 = np.float32


class Points(NamedTuple):
    """Training points by row and by feature, and what is known of each feature."""

    ptr: NDArray[np.int64]
    features: NDArray[np.uint32]
    values: NDArray[np.float32]
    weights: NDArray[np.float32]  # of the points
    total: np.float32  # sum of the weights
    by_feature_ptr: NDArray[np.int64]
    by_feature_points: NDArray[np.uint32]
    by_feature_values: NDArray[np.float32]
    largest: NDArray[np.float32]  # absolute value of each feature
    weight: NDArray[np.float32]  # of the points that have the feature
    square: NDArray[np.float32]  # weighted sum of its squared values
    common: NDArray[np.bool_]  # left to the far sample


class Sample(NamedTuple):
    """The far points that stand for all, by feature; rows are numbered from 0."""

    points: NDArray[np.int32]
    ptr: NDArray[np.int64]
    rows: NDArray[np.int32]
    values: NDArray[np.float32]


class Scratch(NamedTuple):
    """Arrays that a thread uses for one label after another; kernels leave the first two at -1."""

    place: NDArray[np.int32]  # (points,) row of a point among the near ones
    column: NDArray[np.int32]  # (features,) number of a feature in the problem
    features: NDArray[np.int32]  # (features,) the features of the problem
    scores: NDArray[np.float32]  # (points,)
    found: NDArray[np.int32]  # (points,)


class Rows(NamedTuple):
    """A problem: rows with their labels (+1, -1), costs and squared lengths."""

    ptr: NDArray[np.int64]
    columns: NDArray[np.int32]
    values: NDArray[np.float32]
    y: NDArray[np.float32]
    costs: NDArray[np.float32]
    norms: NDArray[np.float32]


@njit(cache=True, nogil=True)
def number_features(points, near, first, end, scratch, n_features):
    """Number the features of some near points, after those that have a number."""
    for k in range(first, end):
        for p in range(points.ptr[near[k]], points.ptr[near[k] + 1]):
            f = points.features[p]
            if scratch.column[f] < 0:
                scratch.column[f] = n_features
                scratch.features[n_features] = f
                n_features += 1
    return n_features


@njit(cache=True, nogil=True)
def cut_sample(points, sample, scratch, n_own):
    """The sampled points cut to the common ones of the first n_own features: (ptr, columns, values) by row."""
    n = sample.points.shape[0]
    ptr = np.zeros(n + 1, np.int64)
    for k in range(n_own):
        f = scratch.features[k]
        if points.common[f]:
            for p in range(sample.ptr[f], sample.ptr[f + 1]):
                ptr[sample.rows[p] + 1] += 1
    for s in range(n):
        ptr[s + 1] += ptr[s]
    columns, values, filled = np.empty(ptr[n], np.int32), np.empty(ptr[n], np.float32), ptr[:-1].copy()
    for k in range(n_own):
        f = scratch.features[k]
        if points.common[f]:
            for p in range(sample.ptr[f], sample.ptr[f + 1]):
                place = filled[sample.rows[p]]
                columns[place], values[place] = k, sample.values[p]
                filled[sample.rows[p]] += 1
    return ptr, columns, values


@njit(cache=True, nogil=True)
def build_rows(points, sample, cut, near, n_near, n_positives, n_own, C, positive_cost, bias, scratch, in_sample):
    """Write the problem of a label down; `in_sample` gets the sampled points that have a row, in order.

    Returns the rows, the number of sample rows, and the row of the rest; feature rows follow it.
    """
    cut_ptr, cut_columns, cut_values = cut
    n_sampled, n_rows_of_sample, size = sample.points.shape[0], 0, 0
    far, sampled, without = points.total, F32(0), F32(0)
    own_weight, own_square = np.empty(n_own, np.float32), np.empty(n_own, np.float32)
    n_rare = 0
    for k in range(n_own):
        f = scratch.features[k]
        own_weight[k], own_square[k] = points.weight[f], points.square[f]
        n_rare += not points.common[f]
    for k in range(n_near):
        u = points.weights[near[k]]
        far -= u
        size += points.ptr[near[k] + 1] - points.ptr[near[k]]
        for p in range(points.ptr[near[k]], points.ptr[near[k] + 1]):
            j = scratch.column[points.features[p]]
            if j < n_own:
                own_weight[j] -= u
                own_square[j] -= u * points.values[p] * points.values[p]
    for s in range(n_sampled):
        if scratch.place[sample.points[s]] >= 0:
            continue
        u = points.weights[sample.points[s]]
        sampled += u
        if cut_ptr[s + 1] > cut_ptr[s]:
            in_sample[n_rows_of_sample] = s
            n_rows_of_sample += 1
            size += cut_ptr[s + 1] - cut_ptr[s]
        else:
            without += u
    rest = n_near + n_rows_of_sample
    n = rest + 1 + n_rare
    ptr, columns, values = np.zeros(n + 1, np.int64), np.empty(size + n_rare, np.int32), np.empty(size + n_rare, F32)
    y, costs, norms = np.full(n, F32(-1)), np.empty(n, F32), np.full(n, F32(bias * bias))
    t = 0
    for k in range(n_near):
        for p in range(points.ptr[near[k]], points.ptr[near[k] + 1]):
            columns[t], values[t] = scratch.column[points.features[p]], points.values[p]
            t += 1
        ptr[k + 1] = t
        y[k] = F32(1) if k < n_positives else F32(-1)
        costs[k] = points.weights[near[k]] * (positive_cost if k < n_positives else C)
    scale = C * max(far, F32(0)) / max(sampled, F32(1e-12))  # what a sampled point of weight 1 stands for
    for k in range(n_rows_of_sample):
        s = in_sample[k]
        for p in range(cut_ptr[s], cut_ptr[s + 1]):
            columns[t], values[t] = cut_columns[p], cut_values[p]
            t += 1
        ptr[n_near + k + 1] = t
        costs[n_near + k] = max(scale * points.weights[sample.points[s]], _LEAST_COST)
    ptr[rest + 1] = t
    costs[rest] = max(scale * without, C)
    row = rest + 1
    for k in range(n_own):
        if not points.common[scratch.features[k]]:
            # What is left of a difference by rounding is no far point.
            some = own_weight[k] > F32(1e-4) * points.weight[scratch.features[k]]
            columns[t] = k
            values[t] = np.sqrt(max(own_square[k], F32(0)) / own_weight[k]) if some else F32(0)
            costs[row] = max(C * own_weight[k], _LEAST_COST) if some else _LEAST_COST
            t += 1
            ptr[row + 1] = t
            row += 1
    for r in range(n):
        for p in range(ptr[r], ptr[r + 1]):
            norms[r] += values[p] * values[p]
    return Rows(ptr, columns, values, y, costs, norms), n_rows_of_sample, rest
