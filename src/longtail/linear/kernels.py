"""Kernels of the label-blocked dual coordinate descent.

For each label b, with y = +1 or -1 and the weight c = C * (label weight * relevance, if positive) * (point weight):

    primal   min_w  |w|^2 / 2 + sum_i c_i loss(y_i w.x_i)           (LIBLINEAR's scaling of C)
    dual     max_a  sum_i f_i(a_i) - |w|^2 / 2,                     w = sum_i a_i y_i x_i

    squared hinge  loss = [1 - m]+^2        f = a - a^2 / (4 c),    0 <= a
    hinge          loss = [1 - m]+          f = a,                  0 <= a <= c
    logistic       loss = log(1 + exp(-m))  f = -a log(a/c) - (c - a) log(1 - a/c),   0 <= a <= c

For the hinge losses one coordinate step is exact, a <- min(max(a - g / (|x|^2 + d), 0), u) with g = y w.x - 1 + d a,
d = 1 / (2 c) or 0, u = infinity or c (Hsieh et al., ICML 2008). For the logistic loss it is the closed-form step of
Shalev-Shwartz and Zhang (JMLR 2013, section 6.2) for a smooth loss: a <- a + s (c sigma(-m) - a) with
s = 1 / (1 + c |x|^2 / 4).

Here BLOCK labels take the step for the same point at the same time: one pass over the point's features serves them all.
Each label of a block is a lane, a column of W and of the dual variables. A lane that has converged leaves the training.
"""

from __future__ import annotations

import numpy as np

from longtail.core.compiled import njit, nonzero
from longtail.linear.options import HINGE, LOGISTIC, SQUARED_HINGE
from longtail.linear.order import shuffled
from longtail.linear.simd import BLOCK, any_above, block_adds, block_dots, prefetch
from longtail.linear.simd_steps import hinge_look, hinge_step, squared_hinge_look, squared_hinge_step

_ZERO, _ONE, _HALF, _QUARTER = np.float32(0), np.float32(1), np.float32(0.5), np.float32(0.25)
_TINY, _EPS = np.float32(1e-30), np.float32(6e-8)
_MATTERS = np.float32(0.02)  # logistic: a point joins the inner passes if a/c is above this for some label
_FULL_ROUNDS = 2  # rounds that begin with a pass over all points, before the gap is measured for the first time
_INNER_PASSES = 8  # passes over the unsettled points per round, at most ...
_INNER_SHARE = 4 / 3  # ... or until their own gap is this multiple of the tolerance (measuring the whole is cheap),
_EARLY_GAP = 0.25  # or this gap, while another full pass is still to come, which changes what is unsettled anyway
_RETURNS = 16  # how often a pass returns to the positives of the block, at most ...
_RETURN_SHARE = 4  # ... so that a return visits at most a quarter as many points as lie between two returns
_AHEAD = 8  # points between fetching rows and dual variables from memory and using them


@njit(cache=True, nogil=True, fastmath={"contract", "nnan", "nsz"})
def one_pass(order, loss, X, norms, weights, labels, costs, duals, W, live, sums, active):
    """Take one step for every point of `order` and every live lane.

    X: (indptr, indices, data); norms: |x_i|^2; weights: point weights.
    labels: (indptr, lanes, relevances), the positives.
    costs: (2, BLOCK), c of a negative and of a positive, for point weight 1 and relevance 1.
    duals: (points, BLOCK); W: (features, BLOCK); live: 1 for lanes that still train, 0 for lanes that left.
    sums: (3, BLOCK) float64, added to: primal loss and dual value f(a), each as of the visit of a point, and the change
    of |w|^2.
    active: set to 1 for points with a dual variable above 0 (logistic: a/c above _MATTERS) in some live lane, else 0.
    """
    room = np.empty((8, BLOCK), np.float32)
    _pass(order, loss, X, norms, weights, labels, costs, duals, W, live, sums, active, room)


@njit(cache=True, nogil=True, allocates=False, fastmath={"contract", "nnan", "nsz"})
def _pass(order, loss, X, norms, weights, labels, costs, duals, W, live, sums, active, room):
    indptr, indices, data = X
    label_ptr, label_lane, relevance = labels
    z, y, c, reach, step, part = room[0], room[1], room[2], room[3], room[4], room[5:]
    _start(costs, live, y, c, reach, part)
    counted = 0
    for o in range(order.shape[0]):
        i = order[o]
        if o + _AHEAD < order.shape[0]:
            _fetch(order[o + _AHEAD], indptr, indices, data)
            _fetch_duals(order[o + _AHEAD], duals, active)
        block_dots(W, indices, data, indptr[i], indptr[i + 1], z)
        if loss != LOGISTIC and active[i] == 0 and label_ptr[i] == label_ptr[i + 1] and not any_above(z, reach):
            continue  # a negative of every label and on the right side of every margin: nothing to do
        for q in range(label_ptr[i], label_ptr[i + 1]):
            lane = label_lane[q]
            y[lane], c[lane] = _ONE, costs[1, lane] * relevance[q]
        if loss == SQUARED_HINGE:
            changed, held = squared_hinge_step(z, y, c, norms[i], weights[i], duals, i, live, step, part)
        elif loss == HINGE:
            changed, held = hinge_step(z, y, c, norms[i], weights[i], duals, i, live, step, part)
        else:
            changed, held = _logistic_step(z, y, c, norms[i], weights[i], duals[i], live, step, part)
        active[i] = held
        if changed:
            block_adds(W, indices, data, indptr[i], indptr[i + 1], step)
        for q in range(label_ptr[i], label_ptr[i + 1]):
            lane = label_lane[q]
            y[lane], c[lane] = -_ONE, costs[0, lane]
        counted += 1
        if counted % 256 == 0:  # float32 sums stay short
            _flush(part, sums)
    _flush(part, sums)


@njit(cache=True, nogil=True, inline="always")
def _fetch(i, indptr, indices, data):
    """Fetch the memory of the next point during the work on this one: shuffled points are not read in order."""
    for p in range(indptr[i], indptr[i + 1], 16):
        prefetch(indices, p)
        prefetch(data, p)


@njit(cache=True, nogil=True, inline="always")
def _fetch_duals(i, duals, active):
    if active[i]:  # those of other points are rarely read
        for b in range(0, BLOCK, 16):
            prefetch(duals, np.int64(i) * BLOCK + b)


@njit(cache=True, nogil=True, allocates=False)
def _start(costs, live, y, c, reach, part):
    """Set y and c to those of a negative, `reach` to the score above which it is not settled, and sums to 0."""
    for b in range(BLOCK):
        y[b], c[b] = -_ONE, costs[0, b]
        reach[b] = -_ONE if live[b] > _ZERO else np.inf  # never in lanes that left
        for row in range(part.shape[0]):
            part[row, b] = _ZERO


@njit(cache=True, nogil=True, fastmath={"contract", "nnan", "nsz"}, inline="always")
def _logistic_step(z, y, c, norm, weight, dual, live, step, part):
    largest, total = _ZERO, _ZERO
    for b in range(BLOCK):
        a = dual[b]
        cost = c[b] * weight
        margin = y[b] * z[b]
        small = np.exp(-abs(margin))  # sigma(-m) from exp(-|m|), which cannot overflow
        target = cost * (_ONE if margin < _ZERO else small) / (_ONE + small)
        new = a + (target - a) / (_ONE + _QUARTER * cost * norm)
        new = new if live[b] > _ZERO else a
        change = new - a
        dual[b] = new
        step[b] = change * y[b]
        _logistic_terms(part, b, margin, new, cost)
        part[2, b] += step[b] * (z[b] + z[b] + step[b] * norm)
        largest = max(largest, abs(change))
        total = max(total, live[b] * new / cost)
    return largest > _ZERO, total > _MATTERS


@njit(cache=True, nogil=True, fastmath={"contract", "nnan", "nsz"}, inline="always")
def _logistic_terms(part, b, margin, a, cost):
    """Add primal loss and dual value f(a) of one point in lane b to part[0, b] and part[1, b]."""
    share = min(max(a / cost, _TINY), _ONE - _EPS)
    part[0, b] += cost * (np.log1p(np.exp(-abs(margin))) + max(-margin, _ZERO))
    part[1, b] -= cost * (share * np.log(share) + (_ONE - share) * np.log1p(-share))


@njit(cache=True, nogil=True, allocates=False)
def _flush(part, sums):
    for row in range(part.shape[0]):
        for b in range(BLOCK):
            sums[row, b] += part[row, b]
            part[row, b] = _ZERO


@njit(cache=True, nogil=True, fastmath={"contract", "nnan", "nsz"})
def evaluate(loss, X, weights, labels, costs, duals, W, live, sums, active):
    """Measure the primal loss and the dual value of every lane into `sums` (2, BLOCK), without moving anything.

    The sums of `one_pass` only estimate them, since W changes after a point's visit: with few points or rare labels
    they gave a gap many times too small, even below zero. So this measure alone decides when a label leaves.
    active: on entry, 0 only for points whose live dual variables are all zero; on return, 1 for points that are not
    settled: some live lane has a dual variable above zero or a margin on the wrong side (logistic: as in `one_pass`).
    """
    sums[:] = 0
    room = np.empty((6, BLOCK), np.float32)
    _look(loss, X, weights, labels, costs, duals, W, live, sums, active, room)


@njit(cache=True, nogil=True, allocates=False, fastmath={"contract", "nnan", "nsz"})
def _look(loss, X, weights, labels, costs, duals, W, live, sums, active, room):
    indptr, indices, data = X
    label_ptr, label_lane, relevance = labels
    z, y, c, reach, part = room[0], room[1], room[2], room[3], room[4:]
    _start(costs, live, y, c, reach, part)
    for i in range(active.shape[0]):
        _fetch_duals(min(i + _AHEAD, active.shape[0] - 1), duals, active)
        block_dots(W, indices, data, indptr[i], indptr[i + 1], z)
        if loss != LOGISTIC and active[i] == 0 and label_ptr[i] == label_ptr[i + 1] and not any_above(z, reach):
            continue
        for q in range(label_ptr[i], label_ptr[i + 1]):
            lane = label_lane[q]
            y[lane], c[lane] = _ONE, costs[1, lane] * relevance[q]
        if loss == SQUARED_HINGE:
            active[i] = squared_hinge_look(z, y, c, weights[i], duals, i, live, part)
        elif loss == HINGE:
            active[i] = hinge_look(z, y, c, weights[i], duals, i, live, part)
        else:
            active[i] = _logistic_unsettled(z, y, c, weights[i], duals[i], live, part)
        for q in range(label_ptr[i], label_ptr[i + 1]):
            lane = label_lane[q]
            y[lane], c[lane] = -_ONE, costs[0, lane]
        if i % 256 == 255:  # float32 sums stay short
            _flush(part, sums)
    _flush(part, sums)


@njit(cache=True, nogil=True, fastmath={"contract", "nnan", "nsz"}, inline="always")
def _logistic_unsettled(z, y, c, weight, dual, live, part):
    most = _ZERO
    for b in range(BLOCK):
        cost = c[b] * weight
        _logistic_terms(part, b, y[b] * z[b], dual[b], cost)
        most = max(most, live[b] * dual[b] / cost)
    return most > _MATTERS


@njit(cache=True, nogil=True)
def sweep(order, positives, loss, X, norms, weights, labels, costs, duals, W, live, sums, active, state):
    """Pass over the points of `order` and return to the block's positives several times on the way.

    A rare label has a handful of positives among thousands of negatives. Visited once per pass, they lag behind what
    the negatives do to w in between. With a large weight (PW) this alone took two to three times as many passes.
    `sums`, as of `one_pass`, are set to those of the sweep.
    """
    sums[:] = 0
    n = order.shape[0]
    returns = min(_RETURNS, n // (_RETURN_SHARE * positives.shape[0] + 1))
    returned = np.zeros((3, BLOCK), np.float64)
    first = 0
    for part in range(1, returns + 2):
        end = n * part // (returns + 1)
        one_pass(order[first:end], loss, X, norms, weights, labels, costs, duals, W, live, sums, active)
        if part <= returns:
            again = shuffled(positives, state)
            one_pass(again, loss, X, norms, weights, labels, costs, duals, W, live, returned, active)
        first = end
    sums[2] += returned[2]  # loss and dual value of the positives are counted already


@njit(cache=True, nogil=True)
def weights_of_duals(X, labels, duals, W):
    """Compute W = sum of a_i y_i x_i from scratch."""
    indptr, indices, data = X
    label_ptr, label_lane, _ = labels
    step = np.empty(BLOCK, np.float32)
    W[:] = 0
    for i in range(duals.shape[0]):
        largest = _ZERO
        for b in range(BLOCK):
            step[b] = -duals[i, b]
            largest = max(largest, duals[i, b])
        for q in range(label_ptr[i], label_ptr[i + 1]):
            step[label_lane[q]] = duals[i, label_lane[q]]
        if largest > _ZERO:
            block_adds(W, indices, data, indptr[i], indptr[i + 1], step)


@njit(cache=True, nogil=True)
def squared_norms(W):
    """Return |w_b|^2 per lane."""
    total = np.zeros(BLOCK, np.float64)
    row = np.zeros(BLOCK, np.float32)
    for f in range(W.shape[0]):
        for b in range(BLOCK):
            row[b] += W[f, b] * W[f, b]
        if f % 256 == 255:
            total += row
            row[:] = 0
    return total + row


@njit(cache=True, nogil=True)
def solve_block(loss, X, norms, weights, labels, costs, duals, W, live, tolerance, max_passes, seed, gaps, warm):
    """Train the live lanes of a block until the relative duality gap of each is at most `tolerance`.

    A round makes passes over the unsettled points only (settled points have no dual variable above zero and are on the
    right side of every margin), then evaluates all points, which measures the gaps and finds points that are no longer
    settled. A label whose gap is small enough leaves: its lane no longer changes and keeps no points active. The first
    two rounds begin with a pass over all points, without evaluation in between: too much changes for it to pay. The
    very first takes the points as they are stored, since the caller has shuffled them, and so reads memory in order.
    With the logistic loss no point is ever settled, so every round passes over all points. `duals` and `W` must belong
    together: both zero, or a warm start (`warm`), which is evaluated first. `gaps` gets each label's gap when it left,
    or its last one. Returns the number of passes over all points (evaluations included) and over unsettled points.
    """
    n = norms.shape[0]
    everyone = np.arange(n).astype(np.uint32)
    positives = nonzero(labels[0][1:] - labels[0][:-1])
    active = np.ones(n, np.uint8) if warm else np.zeros(n, np.uint8)
    sums, squared = np.zeros((3, BLOCK), np.float64), np.zeros(BLOCK, np.float64)
    restricted = np.zeros(BLOCK, np.float64)
    state = np.array([np.uint64(seed) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(1)], np.uint64)
    n_full = n_inner = 0
    moves = not warm
    full_rounds = 0 if warm else 1 if loss == LOGISTIC else _FULL_ROUNDS
    while True:
        if moves:
            if full_rounds > 0 or loss == LOGISTIC:
                order = shuffled(everyone, state) if n_full else everyone
                sweep(order, positives, loss, X, norms, weights, labels, costs, duals, W, live, sums, active, state)
                squared += sums[2]
                n_full += 1
            full_rounds -= 1
            goal = max(_INNER_SHARE * tolerance, _EARLY_GAP if full_rounds > 0 else 0.0)
            for _ in range(_INNER_PASSES):
                order = shuffled(nonzero(active), state)
                sweep(order, positives, loss, X, norms, weights, labels, costs, duals, W, live, sums, active, state)
                squared += sums[2]
                n_inner += 1
                # The gap of the problem with these points only: no need to go far below the tolerance of the whole.
                if measure_gaps(squared, sums, live, restricted) <= goal:
                    break
            if full_rounds > 0 and n_full + 1 < max_passes:
                continue
        if loss == LOGISTIC:  # it takes so many small steps that their rounding errors add up
            weights_of_duals(X, labels, duals, W)
        evaluate(loss, X, weights, labels, costs, duals, W, live, sums[:2], active)
        squared[:] = squared_norms(W)
        n_full += 1
        measure_gaps(squared, sums, live, gaps)
        for b in range(BLOCK):
            if not gaps[b] > tolerance:  # true for NaN as well, which the caller checks for
                live[b] = _ZERO
        if n_full >= max_passes or not live.any():
            return n_full, n_inner
        moves = True


@njit(cache=True, nogil=True)
def measure_gaps(squared, sums, live, gaps):
    """Set `gaps` to the relative duality gap (primal - dual) / primal of each live lane; return the largest.

    squared: |w|^2 per lane; sums: primal loss and dual value per lane.
    """
    largest = 0.0
    for b in range(BLOCK):
        if live[b] > _ZERO:
            primal = 0.5 * squared[b] + sums[0, b]
            dual = sums[1, b] - 0.5 * squared[b]
            gaps[b] = (primal - dual) / max(primal, 1e-12)
            largest = max(largest, gaps[b])
    return largest
