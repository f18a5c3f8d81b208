"""The problem of one rare label: a few hundred rows that stand for all training points.

A label with a handful of points is decided by these points and by the few negatives that resemble them. The other
negatives matter only together, so the label's problem has these rows, each with the bias:

positives        whole
far sample       the same random points for every label, cut to the common features of the positives; each stands for
                 its share of all far points, and those without such a feature are one row with the bias only
feature rows     for each rarer feature of the positives, one row that has this feature only, with the root mean square
                 of its values, and weighs as much as all far points that have it
near negatives   whole: the points that were found to score above -1 + `rare_kernels.MARGIN`

A single row for all far points does not work: their small slacks matter together. Near negatives come last because
they are found last: `start_rows` writes down everything else, `add_near` appends them and takes them out of the far
points, and a solution goes on from where it was.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from longtail.core.compiled import copy_to, njit
from longtail.linear.sparse_rows import add_row, entries

LEAST_COST = np.float32(1e-3)
F32 = np.float32


class Points(NamedTuple):
    """Training points by row and by feature, and what is known of each feature."""

    ptr: NDArray[np.int64]
    features: NDArray[np.uint32]
    values: NDArray[np.float32]
    weights: NDArray[np.float32]  # of the points
    total: np.float32  # sum of the weights
    lists: NDArray[np.int64]  # this and the next four: `by_feature.ByFeature`
    list_ptr: NDArray[np.int64]
    list_points: NDArray[np.uint32]
    list_values: NDArray[np.float32]
    list_bounds: NDArray[np.float32]
    weight: NDArray[np.float32]  # of the points that have the feature
    square: NDArray[np.float32]  # weighted sum of its squared values
    common: NDArray[np.bool_]  # left to the far sample


class Sample(NamedTuple):
    """The far points that stand for all, by feature; rows are numbered from 0."""

    points: NDArray[np.int32]
    number: NDArray[np.int32]  # (points,) of a point in the sample, else -1
    ptr: NDArray[np.int64]
    rows: NDArray[np.int32]
    values: NDArray[np.float32]


class Scratch(NamedTuple):
    """Arrays that a thread uses for one label after another; kernels leave the first three as they were."""

    column: NDArray[np.int32]  # (features,) number of a feature in the problem, else -1
    near: NDArray[np.bool_]  # (points,) positives and near negatives
    scores: NDArray[np.float32]  # (points,) zero, but in a search
    features: NDArray[np.int32]  # (features,) the features of the problem
    found: NDArray[np.int32]  # (points,) those that a search has found ...
    found_scores: NDArray[np.float32]  # ... and their scores


class Rows(NamedTuple):
    """A problem: rows with their labels (+1, -1), costs and squared lengths."""

    ptr: NDArray[np.int64]
    columns: NDArray[np.uint32]
    values: NDArray[np.float32]
    y: NDArray[np.float32]
    costs: NDArray[np.float32]
    norms: NDArray[np.float32]


class Far(NamedTuple):
    """The far points of a problem, and the rows that stand for them."""

    totals: NDArray[np.float32]  # weight of all far points, of the sampled ones, of those without a common feature
    weight: NDArray[np.float32]  # of the far points that have each feature of the positives
    square: NDArray[np.float32]  # weighted sum of its squared values there
    row_of_sample: NDArray[np.int64]  # -1 for sampled points without a common feature, and for near ones
    rest: int  # the row of those without a common feature
    row_of_feature: NDArray[np.int64]  # -1 for common ones


@njit(cache=True, nogil=True, allocates=False)
def number_features(points, near, first, end, scratch, n_features):
    """Number the features of some near points, after those that have a number."""
    for k in range(first, end):
        for p in entries(points.ptr, near[k]):
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
    _count_cut(points, sample, scratch, n_own, ptr)
    columns, values, filled = np.empty(ptr[n], np.int32), np.empty(ptr[n], np.float32), ptr[:-1].copy()
    _fill_cut(points, sample, scratch, n_own, filled, columns, values)
    return ptr, columns, values


@njit(cache=True, nogil=True, allocates=False)
def _count_cut(points, sample, scratch, n_own, ptr):
    for k in range(n_own):
        f = scratch.features[k]
        if points.common[f]:
            for p in entries(sample.ptr, f):
                ptr[sample.rows[p] + 1] += 1
    for s in range(ptr.shape[0] - 1):
        ptr[s + 1] += ptr[s]


@njit(cache=True, nogil=True, allocates=False)
def _fill_cut(points, sample, scratch, n_own, filled, columns, values):
    for k in range(n_own):
        f = scratch.features[k]
        if points.common[f]:
            for p in entries(sample.ptr, f):
                place = filled[sample.rows[p]]
                columns[place], values[place] = k, sample.values[p]
                filled[sample.rows[p]] += 1


@njit(cache=True, nogil=True)
def start_rows(points, sample, cut, positives, n_own, positive_cost, bias, scratch):
    """Write down the problem of a label without near negatives; `weigh_far` has still to set the costs of far rows."""
    row_of_sample, row_of_feature = np.full(sample.points.shape[0], -1), np.full(n_own, -1)
    n_rows, rest, size = _place_rows(points, cut[0], positives, scratch, row_of_sample, row_of_feature)
    rows = _empty_rows(n_rows, size)
    far = Far(
        np.zeros(3, np.float32), np.empty(n_own, np.float32), np.empty(n_own, np.float32),
        row_of_sample, rest, row_of_feature,
    )  # fmt: skip
    _write_rows(points, cut, positives, positive_cost, far, scratch, rows)
    _set_norms(rows, 0, bias)
    _count_far(points, sample, scratch, far)
    return rows, far


@njit(cache=True, nogil=True, allocates=False)
def _place_rows(points, cut_ptr, positives, scratch, row_of_sample, row_of_feature):
    """Number the rows after the positives; returns how many there are, the one of the rest, and their entries."""
    size, n_rows = cut_ptr[-1], positives.shape[0]
    for k in range(positives.shape[0]):
        size += points.ptr[positives[k] + 1] - points.ptr[positives[k]]
    for s in range(row_of_sample.shape[0]):
        if cut_ptr[s + 1] > cut_ptr[s]:
            row_of_sample[s] = n_rows
            n_rows += 1
    rest = n_rows
    n_rows += 1
    for k in range(row_of_feature.shape[0]):
        if not points.common[scratch.features[k]]:
            row_of_feature[k] = n_rows
            n_rows += 1
    return n_rows, rest, size + n_rows - rest - 1


@njit(cache=True, nogil=True, allocates=False)
def _write_rows(points, cut, positives, positive_cost, far, scratch, rows):
    cut_ptr, cut_columns, cut_values = cut
    t = np.int64(0)
    for k in range(positives.shape[0]):
        t = _write_point(points, positives[k], scratch, rows, k, t)
        rows.y[k], rows.costs[k] = F32(1), points.weights[positives[k]] * positive_cost
    for s in range(far.row_of_sample.shape[0]):
        if far.row_of_sample[s] >= 0:
            for p in range(cut_ptr[s], cut_ptr[s + 1]):
                rows.columns[t], rows.values[t] = cut_columns[p], cut_values[p]
                t += 1
            rows.ptr[far.row_of_sample[s] + 1] = t
    rows.ptr[far.rest + 1] = t
    for k in range(far.weight.shape[0]):
        if far.row_of_feature[k] >= 0:
            rows.columns[t], rows.values[t] = k, F32(0)
            t += 1
            rows.ptr[far.row_of_feature[k] + 1] = t


@njit(cache=True, nogil=True, allocates=False)
def _count_far(points, sample, scratch, far):
    """Set the weights of far points as if all points were far."""
    far.totals[0] = points.total
    for s in range(sample.points.shape[0]):
        far.totals[1] += points.weights[sample.points[s]]
        if far.row_of_sample[s] < 0:
            far.totals[2] += points.weights[sample.points[s]]
    for k in range(far.weight.shape[0]):
        far.weight[k], far.square[k] = points.weight[scratch.features[k]], points.square[scratch.features[k]]


@njit(cache=True, nogil=True, allocates=False)
def leave_far(points, sample, far, near, first, first_row, rows, a, w, bias_weight, bias):
    """Take near points (from `first` on, whose rows begin at `first_row`) out of the far ones, and of the sample.

    The sampled row of such a point stays, at the least cost, which is next to nothing. Returns the weight of the bias.
    """
    n_own = np.uint32(far.weight.shape[0])
    for k in range(first, near.shape[0]):
        u = points.weights[near[k]]
        far.totals[0] -= u
        for p in entries(rows.ptr, first_row + k - first):
            j = rows.columns[p]
            if j < n_own:
                far.weight[j] -= u
                far.square[j] -= u * rows.values[p] * rows.values[p]
        s = sample.number[near[k]]
        if s < 0:
            continue
        far.totals[1] -= u
        row = far.row_of_sample[s]
        if row < 0:
            far.totals[2] -= u
            continue
        add_row(rows.ptr, rows.columns, rows.values, row, a[row], w)
        bias_weight += a[row] * bias
        a[row], rows.costs[row], far.row_of_sample[s] = F32(0), LEAST_COST, -1
    return bias_weight


@njit(cache=True, nogil=True, allocates=False)
def weigh_far(points, sample, far, scratch, rows, a, w, C, bias):
    """Set the costs of the rows that stand for far points, and the values of feature rows, also in w."""
    scale = C * max(far.totals[0], F32(0)) / max(far.totals[1], F32(1e-12))  # what a sampled weight of 1 stands for
    for s in range(sample.points.shape[0]):
        if far.row_of_sample[s] >= 0:
            rows.costs[far.row_of_sample[s]] = max(scale * points.weights[sample.points[s]], LEAST_COST)
    rows.costs[far.rest] = max(scale * far.totals[2], C)
    for k in range(far.weight.shape[0]):
        row = far.row_of_feature[k]
        if row < 0:
            continue
        # What is left of a difference by rounding is no far point.
        some = far.weight[k] > F32(1e-4) * points.weight[scratch.features[k]]
        value = np.sqrt(max(far.square[k], F32(0)) / far.weight[k]) if some else F32(0)
        w[k] -= a[row] * (value - rows.values[rows.ptr[row]])
        rows.values[rows.ptr[row]] = value
        rows.norms[row] = bias * bias + value * value
        rows.costs[row] = max(C * far.weight[k], LEAST_COST) if some else LEAST_COST


@njit(cache=True, nogil=True)
def add_near(points, near, first, scratch, rows, C, bias):
    """Return the rows with those of near points (from `first` on) after them; their features have numbers."""
    size = rows.ptr[-1] + _n_entries(points, near, first)
    grown = _empty_rows(rows.y.shape[0] + near.shape[0] - first, size)
    copy_to(grown.ptr, rows.ptr)
    copy_to(grown.columns, rows.columns)
    copy_to(grown.values, rows.values)
    copy_to(grown.y, rows.y)
    copy_to(grown.costs, rows.costs)
    copy_to(grown.norms, rows.norms)
    _write_near(points, near, first, scratch, rows.y.shape[0], grown, C)
    _set_norms(grown, rows.y.shape[0], bias)
    return grown


@njit(cache=True, nogil=True, allocates=False)
def _n_entries(points, near, first):
    size = np.int64(0)
    for k in range(first, near.shape[0]):
        size += points.ptr[near[k] + 1] - points.ptr[near[k]]
    return size


@njit(cache=True, nogil=True, allocates=False)
def _write_near(points, near, first, scratch, n_old, rows, C):
    t = rows.ptr[n_old]
    for k in range(first, near.shape[0]):
        row = n_old + k - first
        t = _write_point(points, near[k], scratch, rows, row, t)
        rows.costs[row] = points.weights[near[k]] * C


@njit(cache=True, nogil=True)
def _empty_rows(n_rows, size):
    return Rows(
        np.zeros(n_rows + 1, np.int64), np.empty(size, np.uint32), np.empty(size, np.float32),
        np.full(n_rows, F32(-1)), np.empty(n_rows, np.float32), np.empty(n_rows, np.float32),
    )  # fmt: skip


@njit(cache=True, nogil=True, allocates=False)
def _write_point(points, point, scratch, rows, row, t):
    for p in entries(points.ptr, point):
        rows.columns[t], rows.values[t] = scratch.column[points.features[p]], points.values[p]
        t += 1
    rows.ptr[row + 1] = t
    return t


@njit(cache=True, nogil=True, allocates=False)
def _set_norms(rows, first, bias):
    for row in range(first, rows.y.shape[0]):
        rows.norms[row] = bias * bias
        for p in entries(rows.ptr, row):
            rows.norms[row] += rows.values[p] * rows.values[p]
