"""Kernels that train one rare label at a time, on a problem as small as its evidence (`rare_problem`).

The dual of the problem, with the squared hinge loss, is solved by scalar coordinate descent (Hsieh et al. 2008). An
inverted index then finds the points that the weights get wrong; they become near negatives, and the problem is solved
again from where it ended.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from longtail.core.compiled import copy_to, njit
from longtail.linear.order import shuffle
from longtail.linear.rare_problem import add_near, cut_sample, leave_far, number_features, start_rows, weigh_far
from longtail.linear.sparse_rows import add_row, entries, row_dot

MARGIN = np.float32(0.1)  # beyond -1, from which on a negative counts as near
_EARLY_TOL = 0.3  # relative duality gap of a solve that is followed by a search
_LEAVE = 0.03  # found points whose loss is below this share of the objective are left out
_FOUND = 150  # near negatives that one search may add, and more for each positive
_PASSES_BEFORE_LOOK = 3
_LEAST_NEED = np.float32(0.05)
_LEAST_GIFT = np.float32(0.2)  # to a score, below which a list of points is left out of a search; times `share`
_FEW = 0.1  # of the points: where a search gives more scores, all are cleared
_POSITIVES_EVERY = 16  # visits between two returns to a positive


class Settings(NamedTuple):
    """How rare labels are trained."""

    C: np.float32
    bias: np.float32
    tol: float  # relative duality gap
    max_looks: int
    rounds: int  # solves per label
    found: int  # near negatives that one search may add for each positive
    share: np.float32  # of what a point needs to be near, below which a gift is left out of a search


_FAST = {"contract", "reassoc", "nsz", "nnan"}
F32 = np.float32


@njit(cache=True, nogil=True, fastmath=_FAST, error_model="numpy", inline="always")
def _score(row, rows, w, bias_weight, bias):
    return row_dot(rows.ptr, rows.columns, rows.values, row, w) + bias_weight * bias


@njit(cache=True, nogil=True, fastmath=_FAST, error_model="numpy", inline="always")
def _visit(row, rows, diagonal, rate, a, w, bias_weight, bias):
    """Move one dual variable to the optimum of its coordinate; returns the weight of the bias and the slack before."""
    slack = F32(1) - rows.y[row] * _score(row, rows, w, bias_weight, bias)
    old = a[row]
    new = max(old + (slack - diagonal[row] * old) * rate[row], F32(0))
    if new != old:
        a[row] = new
        step = (new - old) * rows.y[row]
        add_row(rows.ptr, rows.columns, rows.values, row, step, w)
        bias_weight += step * bias
    return bias_weight, slack


@njit(cache=True, nogil=True, allocates=False, fastmath=_FAST, error_model="numpy")
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


@njit(cache=True, nogil=True, allocates=False, fastmath=_FAST, error_model="numpy")
def _pass(active, n_active, n_positives, rows, diagonal, rate, a, w, bias_weight, bias):
    """Visit the first n_active rows of `active`, in its order, and move those that are not settled to its front.

    Returns the weight of the bias and the number of these rows.
    """
    positive, n_kept = 0, 0
    for j in range(n_active):
        row = active[j]
        bias_weight, slack = _visit(row, rows, diagonal, rate, a, w, bias_weight, bias)
        if slack > 0 or a[row] > 0:
            active[n_kept] = row
            n_kept += 1
        if j % _POSITIVES_EVERY == _POSITIVES_EVERY - 1:
            bias_weight, _ = _visit(positive, rows, diagonal, rate, a, w, bias_weight, bias)
            positive = (positive + 1) % n_positives
    return bias_weight, n_kept


@njit(cache=True, nogil=True, error_model="numpy")
def solve_rows(rows, n_positives, a, w, bias_weight, bias, tol, max_looks, state):
    """Solve a problem from given dual variables and their weights; the positives are its first rows.

    Returns the weight of the bias, the primal value and the relative duality gap.
    """
    n = rows.y.shape[0]
    active = np.arange(n).astype(np.int32)
    diagonal, rate = np.empty(n, np.float32), np.empty(n, np.float32)
    for row in range(n):  # once, since divisions are slow
        diagonal[row] = F32(0.5) / rows.costs[row]
        rate[row] = F32(1) / (rows.norms[row] + diagonal[row])
    n_active, primal, gap = n, 0.0, np.inf
    for _ in range(max_looks):
        for _ in range(_PASSES_BEFORE_LOOK):
            shuffle(active, n_active, state)
            bias_weight, n_active = _pass(active, n_active, n_positives, rows, diagonal, rate, a, w, bias_weight, bias)
        primal, gap, n_active = _look(rows, a, w, bias_weight, bias, active)
        if gap <= tol:
            break
    return bias_weight, primal, gap


@njit(cache=True, nogil=True, allocates=False)
def find_near(points, w, n_features, bias_score, share, most, scratch):
    """Find the points that score above -1 + MARGIN and are not near yet; returns their number and their loss.

    An inverted index adds up what the features of large positive weight give to points, gifts below a `share` of what a
    point needs left out; the few points that come close to the margin by these are scored with all features. Points
    that are above it by the bias alone stay far.
    """
    need = max(MARGIN - F32(1) - bias_score, _LEAST_NEED)
    enough = (F32(1) - share) * need
    n_close = _close(points, w, n_features, share * max(need, _LEAST_GIFT), enough, scratch)
    n_found, lost = 0, 0.0
    for t in range(n_close):
        i = np.int64(scratch.found[t])
        if scratch.near[i]:
            continue
        score = scratch.found_scores[t]
        if n_close <= most:
            score = F32(0)
            for p in entries(points.ptr, i):
                column = scratch.column[points.features[p]]
                if column >= 0:
                    score += w[column] * points.values[p]
        if score > need:
            scratch.found[n_found], scratch.found_scores[n_found] = i, score
            n_found += 1
            slack = F32(1) + score + bias_score
            lost += points.weights[i] * slack * slack
    return n_found, lost


@njit(cache=True, nogil=True, allocates=False)
def _close(points, w, n_features, least, enough, scratch):
    """List in `found` the points to which lists of features that may give `least` give more than `enough` together.

    `scratch.scores` is zero before and after. Gifts are never negative, so a point is listed when it passes `enough`.
    """
    scores, touched, n_close = scratch.scores, 0, 0
    for k in range(n_features):
        f = scratch.features[k]
        for own in range(points.lists[f], points.lists[f + 1]):
            if w[k] * points.list_bounds[own] < least:
                break  # later lists have smaller values
            touched += points.list_ptr[own + 1] - points.list_ptr[own]
            n_close = _give(points, own, w[k], enough, n_close, scratch)
    for t in range(n_close):
        scratch.found_scores[t] = scores[scratch.found[t]]
    if touched > _FEW * scores.shape[0]:
        for i in range(scores.shape[0]):
            scores[i] = 0
        return n_close
    for k in range(n_features):
        f = scratch.features[k]
        for own in range(points.lists[f], points.lists[f + 1]):
            if w[k] * points.list_bounds[own] < least:
                break
            for p in entries(points.list_ptr, own):
                scores[points.list_points[p]] = 0
    return n_close


@njit(cache=True, nogil=True, allocates=False)
def _give(points, own, weight, enough, n_close, scratch):
    """Add a list of a feature to the scores of its points; returns the number of points that are listed by now."""
    ids, values, scores, found = points.list_points, points.list_values, scratch.scores, scratch.found
    for p in entries(points.list_ptr, own):
        i = ids[p]
        before = scores[i]
        after = before + max(weight * values[p], F32(0))
        scores[i] = after
        if before <= enough and after > enough:
            found[n_close] = i
            n_close += 1
    return n_close


@njit(cache=True, nogil=True, allocates=False)
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
def _add_found(near, n_found, most, scratch):
    """Return the near points with those found after them, the best scored ones where they are too many."""
    scores = scratch.found_scores[:n_found]
    least = F32(-np.inf)
    if n_found > most:
        least = _kth_smallest(scores.copy(), n_found - most)
    n_near, n_added = near.shape[0], min(n_found, most)
    grown = np.empty(n_near + n_added, np.int32)
    copy_to(grown, near)
    n_above = 0
    for k in range(n_found):
        n_above += scores[k] > least
    n_ties = n_added - n_above  # with the least score, of which the first ones are taken
    added = n_near
    for k in range(n_found):
        if scores[k] > least or (scores[k] == least and n_ties > 0):
            n_ties -= scores[k] == least
            grown[added] = scratch.found[k]
            scratch.near[scratch.found[k]] = True
            added += 1
    return grown


@njit(cache=True, nogil=True)
def train_label(points, sample, positives, positive_cost, settings, seed, scratch):
    """Train one label; gives the features of its problem, their weights, that of the bias, gap and near points."""
    C, bias, tol = settings.C, settings.bias, settings.tol
    state = np.array([np.uint64(seed) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(7)], np.uint64)
    n_positives, near = positives.shape[0], positives.copy()
    for k in range(n_positives):
        scratch.near[near[k]] = True
    n_features = number_features(points, near, np.int64(0), n_positives, scratch, np.int64(0))
    cut = cut_sample(points, sample, scratch, n_features)
    rows, far = start_rows(points, sample, cut, near, n_features, positive_cost, bias, scratch)
    a, w, bias_weight = np.zeros(rows.y.shape[0], np.float32), np.zeros(n_features, np.float32), F32(0)
    if bias > 0:  # starts at a score of -1
        a[far.rest] = F32(1) / (bias * bias)
        bias_weight = -a[far.rest] * bias
    bias_weight = leave_far(points, sample, far, near, np.int64(0), np.int64(0), rows, a, w, bias_weight, bias)
    weigh_far(points, sample, far, scratch, rows, a, w, C, bias)
    gap, most = np.inf, _FOUND + settings.found * n_positives
    for round_ in range(settings.rounds):
        last = round_ == settings.rounds - 1
        bias_weight, primal, gap = solve_rows(
            rows, n_positives, a, w, bias_weight, bias, _EARLY_TOL if round_ == 0 else tol, settings.max_looks, state
        )
        if last:
            break
        n_found, lost = find_near(points, w, n_features, bias_weight * bias, settings.share, most, scratch)
        if C * lost > _LEAVE * primal:
            n_known = near.shape[0]
            near = _add_found(near, n_found, most, scratch)
            n_features = number_features(points, near, n_known, near.shape[0], scratch, n_features)
            n_rows = rows.y.shape[0]
            rows = add_near(points, near, n_known, scratch, rows, C, bias)
            a, w = _widened(a, rows.y.shape[0]), _widened(w, n_features)
            bias_weight = leave_far(points, sample, far, near, n_known, n_rows, rows, a, w, bias_weight, bias)
            weigh_far(points, sample, far, scratch, rows, a, w, C, bias)
        elif gap <= tol:
            break
    for k in range(near.shape[0]):
        scratch.near[near[k]] = False
    features = scratch.features[:n_features].copy()
    for k in range(n_features):
        scratch.column[features[k]] = -1
    return features, w, bias_weight, gap, near.shape[0]


@njit(cache=True, nogil=True)
def _widened(array, size):
    wider = np.zeros(size, np.float32)
    copy_to(wider, array)
    return wider


@njit(cache=True, nogil=True)
def train_labels(points, sample, members, labels, costs, settings, prune, seed, scratch):
    """Train some labels one after the other, without returning to Python in between.

    members: points by label, in CSC form (ptr, points); costs: of the positives of every label of the training set.
    Gives the weights of at least `prune` in CSR form (ptr, features, values), intercepts and gaps.
    """
    ptr = np.zeros(labels.shape[0] + 1, np.int64)
    kept_features, kept = np.empty(1024, np.int32), np.empty(1024, np.float32)
    intercepts, gaps = np.empty(labels.shape[0], np.float32), np.empty(labels.shape[0], np.float64)
    for number in range(labels.shape[0]):
        label = labels[number]
        positives = members[1][members[0][label] : members[0][label + 1]].astype(np.int32)
        features, w, bias_weight, gap, _ = train_label(
            points, sample, positives, costs[label], settings, seed + label + 1, scratch
        )
        intercepts[number], gaps[number] = bias_weight * settings.bias, gap
        end = ptr[number]
        if end + features.shape[0] > kept.shape[0]:
            kept_features = _grown(kept_features, end, end + features.shape[0])
            kept = _grown(kept, end, end + features.shape[0])
        large = np.flatnonzero((np.abs(w) >= prune) & (w != 0))
        for k in np.argsort(features[large]):
            kept_features[end], kept[end] = features[large[k]], w[large[k]]
            end += 1
        ptr[number + 1] = end
    return ptr, kept_features[: ptr[-1]].copy(), kept[: ptr[-1]].copy(), intercepts, gaps


@njit(cache=True, nogil=True)
def _grown(array, n_used, least):
    larger = np.empty(max(2 * array.shape[0], least), array.dtype)
    copy_to(larger, array[:n_used])
    return larger
