"""Kernels that train one rare label at a time, on a problem as small as its evidence (`rare_problem`).

The dual of the problem, with the squared hinge loss, is solved by scalar coordinate descent (Hsieh et al. 2008). An
inverted index then finds the points that the weights get wrong; they become near negatives, and the problem is solved
again from where it ended.
"""

from __future__ import annotations

import numpy as np

from longtail.core.compiled import copy_to, njit
from longtail.linear.rare_problem import build_rows, cut_sample, number_features

MARGIN = np.float32(0.1)  # beyond -1, from which on a negative counts as near
_EARLY_TOL = 0.3  # relative duality gap of a solve that is followed by a search
_LEAVE = 0.03  # found points whose loss is below this share of the objective are left out
_FOUND = 300  # near negatives that one search may add ...
_FOUND_PER_POSITIVE = 10  # ... and this many more for each positive
_PASSES_BEFORE_LOOK = 3
_POSITIVES_EVERY = 16  # visits between two returns to a positive

_FAST = {"contract", "reassoc", "nsz", "nnan"}
F32 = np.float32


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
def _kth_smallest(values, k):
    """Return what `np.partition(values, k)[k]` is, by Hoare's selection; NumPy's takes Numba 5 s to compile."""
    first, last = 0, values.shape[0] - 1
    while first < last:
        pivot = values[(first + last) // 2]
        i, j = first, last
        while i <= j:
            while values[i] < pivot:
                i += 1
            while values[j] > pivot:
                j -= 1
            if i <= j:
                values[i], values[j] = values[j], values[i]
                i += 1
                j -= 1
        if k <= j:
            last = j
        elif k >= i:
            first = i
        else:
            break
    return values[k]


@njit(cache=True, nogil=True)
def _add_found(near, n_near, n_found, most, scratch):
    """Make the found points near, the best scored ones where they are too many."""
    found = scratch.found[:n_found]
    least = F32(-np.inf)
    if n_found > most:
        least = _kth_smallest(scratch.scores[found], n_found - most)
    n_added = min(n_found, most)
    grown = np.empty(n_near + n_added, np.int32)
    copy_to(grown, near[:n_near])
    n_above = 0
    for k in range(n_found):
        n_above += scratch.scores[found[k]] > least
    n_ties = n_added - n_above  # with the least score, of which the first ones are taken
    added = n_near
    for k in range(n_found):
        score = scratch.scores[found[k]]
        if score > least or (score == least and n_ties > 0):
            n_ties -= score == least
            grown[added] = found[k]
            scratch.place[found[k]] = added
            added += 1
    return grown


@njit(cache=True, nogil=True)
def train_label(points, sample, positives, positive_cost, C, bias, tol, max_looks, rounds, least_weight, seed, scratch):
    """Train one label; gives the features of its problem, their weights, that of the bias, gap and near points."""
    state = np.array([np.uint64(seed) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(7)], np.uint64)
    n_positives = positives.shape[0]
    near = positives.copy()
    for k in range(n_positives):
        scratch.place[near[k]] = k
    n_own = number_features(points, near, np.int64(0), n_positives, scratch, np.int64(0))
    cut = cut_sample(points, sample, scratch, n_own)
    n_features, n_known = n_own, np.int64(0)
    in_sample = np.empty(sample.points.shape[0], np.int32)
    sample_duals = np.zeros(sample.points.shape[0], np.float32)
    tail_duals = np.zeros(n_own + 1, np.float32)  # of the rest and of the feature rows
    if bias > 0:
        tail_duals[0] = F32(1) / (bias * bias)  # the bias starts at a score of -1
    near_duals = np.zeros(n_positives, np.float32)
    w, bias_weight, gap = np.zeros(0, np.float32), F32(0), np.inf
    for round_ in range(rounds):
        last = round_ == rounds - 1
        n_features = number_features(points, near, n_known, near.shape[0], scratch, n_features)
        n_known = near.shape[0]
        rows, n_sampled, rest = build_rows(
            points, sample, cut, near, n_known, n_positives, n_own, C, positive_cost, bias, scratch, in_sample
        )
        n = rows.y.shape[0]
        a = np.zeros(n, np.float32)
        copy_to(a, near_duals)
        for k in range(n_sampled):
            a[n_known + k] = sample_duals[in_sample[k]]
        copy_to(a[rest:], tail_duals[: n - rest])
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
            near = _add_found(near, n_known, n_found, _FOUND + _FOUND_PER_POSITIVE * n_positives, scratch)
        elif gap <= tol:
            break
        near_duals = a[:n_known].copy()
        for k in range(n_sampled):
            sample_duals[in_sample[k]] = a[n_known + k]
        copy_to(tail_duals, a[rest:])
    for k in range(near.shape[0]):
        scratch.place[near[k]] = -1
    features = scratch.features[:n_features].copy()
    for k in range(n_features):
        scratch.column[features[k]] = -1
    return features, w, bias_weight, gap, near.shape[0]


@njit(cache=True, nogil=True)
def train_labels(points, sample, members, labels, costs, options, prune, seed, scratch):
    """Train some labels one after the other, without returning to Python in between.

    members: points by label, in CSC form (ptr, points); costs: of the positives of every label of the training set.
    options: (C, bias, tol, max_looks, rounds, least_weight), as `train_label` takes them.
    Gives the weights of at least `prune` in CSR form (ptr, features, values), intercepts and gaps.
    """
    C, bias, tol, max_looks, rounds, least_weight = options
    ptr = np.zeros(labels.shape[0] + 1, np.int64)
    kept_features, kept = np.empty(1024, np.int32), np.empty(1024, np.float32)
    intercepts, gaps = np.empty(labels.shape[0], np.float32), np.empty(labels.shape[0], np.float64)
    for number in range(labels.shape[0]):
        label = labels[number]
        positives = members[1][members[0][label] : members[0][label + 1]].astype(np.int32)
        features, w, bias_weight, gap, _ = train_label(
            points, sample, positives, costs[label], C, bias, tol, max_looks, rounds, least_weight,
            seed + label + 1, scratch,
        )  # fmt: skip
        intercepts[number], gaps[number] = bias_weight * bias, gap
        end = ptr[number]
        if end + features.shape[0] > kept.shape[0]:
            kept_features = _grown(kept_features, end, end + features.shape[0])
            kept = _grown(kept, end, end + features.shape[0])
        for k in np.argsort(features):
            if abs(w[k]) >= prune and w[k] != 0:
                kept_features[end], kept[end] = features[k], w[k]
                end += 1
        ptr[number + 1] = end
    return ptr, kept_features[: ptr[-1]].copy(), kept[: ptr[-1]].copy(), intercepts, gaps


@njit(cache=True, nogil=True)
def _grown(array, n_used, least):
    larger = np.empty(max(2 * array.shape[0], least), array.dtype)
    copy_to(larger, array[:n_used])
    return larger
