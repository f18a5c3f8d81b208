"""Kernels that train one rare label at a time, on a problem as small as its evidence.

A label with a handful of points is decided by these points and by the few negatives that resemble them. The other
negatives matter only together, so the label's problem has these rows, each with the bias:

positives        whole
near negatives   whole: the points that were found to score above -1 + `MARGIN`
far sample       the same random points for every label, cut to the common features of the positives; each stands for
                 its share of all far points, and those without such a feature are one row with the bias only
feature rows     for each rarer feature of the positives, one row that has this feature only, with the root mean square
                 of its values, and weighs as much as all far points that have it

The dual of this problem, with the squared hinge loss, is solved by scalar coordinate descent (Hsieh et al. 2008). An
inverted index then finds the points that the weights get wrong; they become near negatives, and the problem is solved
again from where it ended. A single row for all far points does not work: their small slacks matter together.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from longtail.core.compiled import njit

MARGIN = np.float32(0.1)  # beyond -1, from which on a negative counts as near
_EARLY_TOL = 0.3  # relative duality gap of a solve that is followed by a search
_LEAVE = 0.03  # found points whose loss is below this share of the objective are left out
_MOST_FOUND = 1000  # near negatives that one search may add
_LEAST_COST = np.float32(1e-3)
_PASSES_BEFORE_LOOK = 3
_POSITIVES_EVERY = 16  # visits between two returns to a positive

_FAST = {"contract", "reassoc", "nsz", "nnan"}
F32 = np.float32


class Points(NamedTuple):
    """Training points by row and by feature, and what is known of each feature."""

    ptr: NDArray[np.int64]
    features: NDArray[np.uint32]
    values: NDArray[np.float32]
    weights: NDArray[np.float32]  # of the points
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


@njit(cache=True, nogil=True, fastmath=_FAST, inline="always")
def _score(row, rows, w, bias_weight, bias):
    total = F32(0)
    for p in range(rows.ptr[row], rows.ptr[row + 1]):
        total += w[rows.columns[p]] * rows.values[p]
    return total + bias_weight * bias


@njit(cache=True, nogil=True, fastmath=_FAST, inline="always")
def _visit(row, rows, a, w, bias_weight, bias):
    """Move one dual variable to the optimum of its coordinate; returns the weight of the bias."""
    slack = F32(1) - rows.y[row] * _score(row, rows, w, bias_weight, bias)
    old = a[row]
    diagonal = F32(0.5) / rows.costs[row]
    new = max(old + (slack - diagonal * old) / (rows.norms[row] + diagonal), F32(0))
    if new != old:
        a[row] = new
        step = (new - old) * rows.y[row]
        for p in range(rows.ptr[row], rows.ptr[row + 1]):
            w[rows.columns[p]] += step * rows.values[p]
        bias_weight += step * bias
    return bias_weight


@njit(cache=True, nogil=True)
def _shuffle(items, n, state):
    """Fisher-Yates with a xorshift generator, whose state is kept."""
    random = state[0]
    for j in range(n - 1, 0, -1):
        random ^= random << np.uint64(13)
        random ^= random >> np.uint64(7)
        random ^= random << np.uint64(17)
        k = np.int64((random >> np.uint64(32)) * np.uint64(j + 1) >> np.uint64(32))
        items[j], items[k] = items[k], items[j]
    state[0] = random


@njit(cache=True, nogil=True, fastmath=_FAST)
def _look(rows, a, w, bias_weight, bias, active):
    """Return the primal value, the relative duality gap and the number of rows that are not settled (`active`)."""
    lost, gained, n_active = 0.0, 0.0, 0
    for row in range(rows.y.shape[0]):
        slack = F32(1) - rows.y[row] * _score(row, rows, w, bias_weight, bias)
        if slack > 0:
            lost += rows.costs[row] * slack * slack
        if a[row] > 0:
            gained += a[row] - 0.25 * a[row] * a[row] / rows.costs[row]
        if slack > 0 or a[row] > 0:
            active[n_active] = row
            n_active += 1
    square = F32(0)
    for j in range(w.shape[0]):
        square += w[j] * w[j]
    square += bias_weight * bias_weight
    primal = 0.5 * square + lost
    return primal, (primal - (gained - 0.5 * square)) / max(primal, 1e-30), n_active


@njit(cache=True, nogil=True)
def solve_rows(rows, n_positives, a, w, bias_weight, bias, tol, max_looks, state):
    """Solve a problem from given dual variables and their weights; the positives are its first rows.

    Returns the weight of the bias, the primal value and the relative duality gap.
    """
    n = rows.y.shape[0]
    active = np.arange(n)
    n_active, primal, gap = n, 0.0, np.inf
    for _ in range(max_looks):
        for _ in range(_PASSES_BEFORE_LOOK):
            _shuffle(active, n_active, state)
            positive = 0
            for j in range(n_active):
                bias_weight = _visit(active[j], rows, a, w, bias_weight, bias)
                if j % _POSITIVES_EVERY == _POSITIVES_EVERY - 1:
                    bias_weight = _visit(positive, rows, a, w, bias_weight, bias)
                    positive = (positive + 1) % n_positives
        primal, gap, n_active = _look(rows, a, w, bias_weight, bias, active)
        if gap <= tol:
            break
    return bias_weight, primal, gap


@njit(cache=True, nogil=True)
def _number_features(points, near, first, end, scratch, n_features):
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
    far, sampled, without = points.weights.sum(), F32(0), F32(0)
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


@njit(cache=True, nogil=True)
def find_near(points, w, n_features, bias_score, least_weight, scratch):
    """Find the points that score above -1 + MARGIN and are not near yet; returns their number and their loss.

    Features whose weight moves no score by `least_weight` are skipped: their points would be most of the work.
    """
    scores = scratch.scores
    scores[:] = bias_score
    for k in range(n_features):
        f = scratch.features[k]
        if abs(w[k]) * points.largest[f] >= least_weight:
            for p in range(points.by_feature_ptr[f], points.by_feature_ptr[f + 1]):
                scores[points.by_feature_points[p]] += w[k] * points.by_feature_values[p]
    n_found, lost = 0, 0.0
    for i in range(scores.shape[0]):
        if scores[i] > MARGIN - F32(1) and scratch.place[i] < 0:
            scratch.found[n_found] = i
            n_found += 1
            slack = F32(1) + scores[i]
            lost += points.weights[i] * slack * slack
    return n_found, lost


@njit(cache=True, nogil=True)
def _add_found(near, n_near, n_found, scratch):
    """Make the found points near, the best scored ones where they are too many."""
    found = scratch.found[:n_found]
    if n_found > _MOST_FOUND:
        found = found[np.argsort(-scratch.scores[found], kind="mergesort")[:_MOST_FOUND]]
    grown = np.empty(n_near + found.shape[0], np.int32)
    grown[:n_near] = near[:n_near]
    for k in range(found.shape[0]):
        grown[n_near + k] = found[k]
        scratch.place[found[k]] = n_near + k
    return grown


@njit(cache=True, nogil=True)
def train_label(points, sample, positives, positive_cost, C, bias, tol, max_looks, rounds, least_weight, seed, scratch):
    """Train one label; gives the features of its problem, their weights, that of the bias, gap and near points."""
    state = np.array([np.uint64(seed) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(7)], np.uint64)
    n_positives = positives.shape[0]
    near = positives.copy()
    for k in range(n_positives):
        scratch.place[near[k]] = k
    n_own = _number_features(points, near, 0, n_positives, scratch, 0)
    cut = cut_sample(points, sample, scratch, n_own)
    n_features, n_known = n_own, 0
    in_sample = np.empty(sample.points.shape[0], np.int32)
    sample_duals = np.zeros(sample.points.shape[0], np.float32)
    tail_duals = np.zeros(n_own + 1, np.float32)  # of the rest and of the feature rows
    if bias > 0:
        tail_duals[0] = F32(1) / (bias * bias)  # the bias starts at a score of -1
    near_duals = np.zeros(n_positives, np.float32)
    w, bias_weight, gap = np.zeros(0, np.float32), F32(0), np.inf
    for round_ in range(rounds):
        last = round_ == rounds - 1
        n_features = _number_features(points, near, n_known, near.shape[0], scratch, n_features)
        n_known = near.shape[0]
        rows, n_sampled, rest = build_rows(
            points, sample, cut, near, n_known, n_positives, n_own, C, positive_cost, bias, scratch, in_sample
        )
        n = rows.y.shape[0]
        a = np.zeros(n, np.float32)
        a[: near_duals.shape[0]] = near_duals
        for k in range(n_sampled):
            a[n_known + k] = sample_duals[in_sample[k]]
        a[rest:] = tail_duals[: n - rest]
        w, bias_weight = np.zeros(n_features, np.float32), F32(0)
        for r in range(n):
            for p in range(rows.ptr[r], rows.ptr[r + 1]):
                w[rows.columns[p]] += a[r] * rows.y[r] * rows.values[p]
            bias_weight += a[r] * rows.y[r] * bias
        bias_weight, primal, gap = solve_rows(
            rows, n_positives, a, w, bias_weight, bias, tol if last else _EARLY_TOL, max_looks, state
        )
        if last:
            break
        n_found, lost = find_near(points, w, n_features, bias_weight * bias, least_weight, scratch)
        if C * lost > _LEAVE * primal:
            near = _add_found(near, n_known, n_found, scratch)
        elif gap <= tol:
            break
        near_duals = a[:n_known].copy()
        for k in range(n_sampled):
            sample_duals[in_sample[k]] = a[n_known + k]
        tail_duals[: n - rest] = a[rest:]
    for k in range(near.shape[0]):
        scratch.place[near[k]] = -1
    features = scratch.features[:n_features].copy()
    for k in range(n_features):
        scratch.column[features[k]] = -1
    return features, w, bias_weight, gap, near.shape[0]
