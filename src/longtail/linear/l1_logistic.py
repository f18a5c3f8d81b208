"""L1-regularised logistic regression of one small problem, as a kernel: what a node of an instance tree learns.

    min_w  |w|_1 + sum_i c_i log(1 + exp(-y_i w.x_i))          (LIBLINEAR's scaling, solver 6)

The method is newGLMNET (Yuan, Ho and Lin, JMLR 2012): Newton steps with a line search, where coordinate descent
minimises the quadratic model of each step. Two things make it fast on text:

- A feature whose gradient cannot exceed 1 for any w has weight 0 at the minimum. Since 0 < sigma < 1,
  |dL/dw_j| < max(sum of [c_i y_i x_ij]+, sum of [-c_i y_i x_ij]+). Callers leave such columns out (`may_have_weight`);
  in small nodes these are nearly all columns.
- Within one Newton step only columns that have a weight or whose gradient exceeds 1 move. The others are checked again
  in the next step.
"""

from __future__ import annotations

import numpy as np

from longtail.core.compiled import copy_to, njit
from longtail.linear.order import shuffle

_ZERO, _ONE = np.float32(0), np.float32(1)
_CURVATURE = np.float32(1e-6)  # added to the Hessian's diagonal, so that a column without curvature takes a finite step
_LONGEST_STEP = np.float32(10)
_SMALLEST_STEP = np.float32(1e-7)
_DECREASE = 0.01  # share of the expected decrease that a step must reach (the paper's sigma)
_HALVINGS = 20


@njit(cache=True, nogil=True, inline="always")
def may_have_weight(for_positive, for_negative):
    """Return whether a column can have a weight at the minimum.

    Parameters
    ----------
    for_positive : float32
        Sum of c_i |x_ij| over the points with y_i x_ij > 0.
    for_negative : float32
        Sum of c_i |x_ij| over the points with y_i x_ij < 0.
    """
    return max(for_positive, for_negative) > _ONE


@njit(cache=True, nogil=True)
def l1_logistic(columns, y, costs, tolerance, max_newton, max_passes, state):
    """Return the weights of the columns at the approximate minimum.

    Parameters
    ----------
    columns : (indptr, rows, values)
        Features by column, m of them; a bias is a column of its own.
    y : (n,) array of float32
        +1 or -1.
    costs : (n,) array of float32
        c_i.
    tolerance : float
        Sum of the violations of optimality at which to stop, relative to the sum at w = 0.
    max_newton : int
        Newton steps at most.
    max_passes : int
        Passes of coordinate descent per Newton step at most.
    state : (1,) array of uint64
        State of the random order (see `order.shuffle`); advanced.

    Returns
    -------
    (m,) array of float32
    """
    n, m = y.shape[0], columns[0].shape[0] - 1
    w, target = np.zeros(m, np.float32), np.zeros(m, np.float32)
    gradient, curvature = np.empty(m, np.float32), np.empty(m, np.float32)
    slope, bend = np.empty(n, np.float32), np.empty(n, np.float32)  # first and second derivatives with respect to w.x_i
    margins, moves = np.zeros(n, np.float32), np.empty(n, np.float32)
    active = np.empty(m, np.uint32)
    first = last = 0.0
    for newton in range(max_newton):
        loss = _derivatives(margins, y, costs, slope, bend)
        violation, n_active = _gradients(columns, w, slope, bend, gradient, curvature, active)
        if newton == 0:
            first = last = violation
        if violation <= tolerance * first:
            break
        # The closer to the minimum, the more exactly the quadratic model must be solved.
        enough = 0.25 * min(violation, last)
        last = violation
        copy_to(target, w)
        _descend(columns, bend, gradient, curvature, active[:n_active], target, enough, max_passes, state)
        if not _line_search(columns, y, costs, active[:n_active], gradient, w, target, margins, moves, loss):
            break
    return w


@njit(cache=True, nogil=True)
def _derivatives(margins, y, costs, slope, bend):
    loss = 0.0
    for i in range(y.shape[0]):
        margin = y[i] * margins[i]
        small = np.exp(-abs(margin))  # cannot overflow
        wrong = (_ONE if margin < _ZERO else small) / (_ONE + small)  # sigma(-margin)
        slope[i] = -y[i] * costs[i] * wrong
        bend[i] = costs[i] * wrong * (_ONE - wrong)
        loss += costs[i] * (np.log1p(small) + max(-margin, _ZERO))
    return loss


@njit(cache=True, nogil=True, fastmath={"contract", "reassoc", "nsz"})
def _gradients(columns, w, slope, bend, gradient, curvature, active):
    """Fill in gradients, curvatures and active columns; return the sum of violations and how many are active."""
    indptr, rows, values = columns
    violation, n_active = 0.0, 0
    for j in range(w.shape[0]):
        g = _ZERO
        for p in range(indptr[j], indptr[j + 1]):
            g += values[p] * slope[rows[p]]
        gradient[j] = g
        outside = _violation(g, w[j])
        violation += outside
        if outside == _ZERO and w[j] == _ZERO:
            continue
        h = _CURVATURE
        for p in range(indptr[j], indptr[j + 1]):
            h += values[p] * values[p] * bend[rows[p]]
        curvature[j] = h
        active[n_active] = j
        n_active += 1
    return violation, n_active


@njit(cache=True, nogil=True, inline="always")
def _violation(g, weight):
    """Return how far 0 is from the subgradient of |w| + L at a column with gradient `g` of L and this weight."""
    if weight > _ZERO:
        return abs(g + _ONE)
    if weight < _ZERO:
        return abs(g - _ONE)
    return max(abs(g) - _ONE, _ZERO)


@njit(cache=True, nogil=True, fastmath={"contract", "reassoc", "nsz"})
def _descend(columns, bend, gradient, curvature, active, target, enough, max_passes, state):
    """Move `target` from w to the approximate minimum of the quadratic model around w, by coordinate descent.

    `pull` holds bend_i * (x_i . (target - w)), what each point adds to the gradient of the model.
    """
    indptr, rows, values = columns
    pull = np.zeros(bend.shape[0], np.float32)
    for _ in range(max_passes):
        shuffle(active, active.shape[0], state)
        violation = 0.0
        for j in active:
            g = gradient[j]
            for p in range(indptr[j], indptr[j + 1]):
                g += values[p] * pull[rows[p]]
            violation += _violation(g, target[j])
            step = _newton_step(g, curvature[j], target[j])
            if abs(step) < _SMALLEST_STEP:
                continue
            target[j] += step
            for p in range(indptr[j], indptr[j + 1]):
                pull[rows[p]] += step * values[p] * bend[rows[p]]
        if violation <= enough:
            break


@njit(cache=True, nogil=True, inline="always")
def _newton_step(g, h, weight):
    """Return the step z to the minimum of g z + h z^2 / 2 + |weight + z|."""
    if g + _ONE <= h * weight:
        step = -(g + _ONE) / h
    elif g - _ONE >= h * weight:
        step = -(g - _ONE) / h
    else:
        step = -weight
    return min(max(step, -_LONGEST_STEP), _LONGEST_STEP)


@njit(cache=True, nogil=True)
def _line_search(columns, y, costs, active, gradient, w, target, margins, moves, loss):
    """Go from w towards target, halving the step until the objective falls enough; return whether it did."""
    indptr, rows, values = columns
    moves[:] = 0
    expected = 0.0
    for j in active:
        change = target[j] - w[j]
        if change != _ZERO:
            expected += gradient[j] * change + abs(target[j]) - abs(w[j])
            for p in range(indptr[j], indptr[j + 1]):
                moves[rows[p]] += change * values[p]
    if not expected < 0:
        return False
    step = _ONE
    for _ in range(_HALVINGS):
        change_of_norm = 0.0
        for j in active:
            change_of_norm += abs(w[j] + step * (target[j] - w[j])) - abs(w[j])
        if _loss(margins, moves, step, y, costs) - loss + change_of_norm <= _DECREASE * step * expected:
            for j in active:
                w[j] = target[j] if step == _ONE else w[j] + step * (target[j] - w[j])
            for i in range(y.shape[0]):
                margins[i] += step * moves[i]
            return True
        step *= np.float32(0.5)
    return False


@njit(cache=True, nogil=True)
def _loss(margins, moves, step, y, costs):
    loss = 0.0
    for i in range(y.shape[0]):
        margin = y[i] * (margins[i] + step * moves[i])
        loss += costs[i] * (np.log1p(np.exp(-abs(margin))) + max(-margin, _ZERO))
    return loss
