"""Plain loops that compute what the kernels of the same names in kernels.cu compute; `numba_backend.py` calls them.

entries: (n, 2) uint32, byte offsets and values; `entry_values` the same memory as float32. rows: (points + 1, 4) of
start, length, |x|^2 and weight; `row_values` the same memory as float32.
"""

from __future__ import annotations

import math

import numpy as np

from longtail.core.compiled import njit
from longtail.linear.options import HINGE, LOGISTIC, SQUARED_HINGE

_ROW_BYTES = 128
_ALL = 0xFFFFFFFF
_MATTERS = np.float32(0.02)
_ONE, _ZERO = np.float32(1), np.float32(0)


@njit(cache=True, nogil=True)
def build_rows(
    indptr, indices, values, order, starts, weights, entries, rows, row_values, hot_counts, bias, hot
):  # fmt: skip
    entry_values = entries.view(np.float32)
    for i in range(order.shape[0]):
        first, end = np.int64(indptr[order[i]]), np.int64(indptr[order[i] + 1])
        norm = bias * bias
        for e in range(end - first):
            entries[starts[i] + e, 0] = indices[first + e] * _ROW_BYTES
            entry_values[starts[i] + e, 1] = values[first + e]
            norm += values[first + e] * values[first + e]
            hot_counts[i] += indices[first + e] < hot
        rows[i, 0], rows[i, 1] = starts[i], end - first
        row_values[i, 2], row_values[i, 3] = norm, weights[order[i]]
    row_values[order.shape[0], 2] = row_values[order.shape[0], 3] = 1


@njit(cache=True, nogil=True)
def set_positives(
    entries, entry_values, rows, row_values, bias, W, duals, bias_weights, a0, label_ptr, label_points, n_labels
):
    for label in range(n_labels):
        group, column = label // 32, label % 32
        for q in range(label_ptr[label], label_ptr[label + 1]):
            i = label_points[q]
            if a0[i] > 0:
                for e in range(rows[i, 0], rows[i, 0] + rows[i, 1]):
                    W[group, entries[e, 0] // _ROW_BYTES, column] += a0[i] * entry_values[e, 1]
                bias_weights[label] += bias * a0[i]
            duals[group, i, column] = _ZERO


@njit(cache=True, nogil=True)
def mix(x):
    x &= _ALL
    x ^= x >> 16
    x = (x * 0x7FEB352D) & _ALL
    x ^= x >> 15
    x = (x * 0x846CA68B) & _ALL
    return x ^ (x >> 16)


@njit(cache=True, nogil=True)
def permuted(k, n, seed):
    """Return place k of a random permutation of 0..n-1."""
    if n <= 1:
        return 0
    bits = 0
    while (n - 1) >> bits:
        bits += 1
    mask, half = (1 << bits) - 1, (bits + 1) // 2
    a, b = mix(seed) | 1, mix(seed + 0x9E3779B9)
    c, d = mix((seed & _ALL) ^ 0x85EBCA6B) | 1, mix(seed + 77) | 1
    x = k
    while True:
        x = (x * a + b) & mask
        x ^= x >> half
        x = (x * c + (b >> 7)) & mask
        x ^= x >> half
        x = (x * d) & mask
        x ^= x >> half
        if x < n:
            return x


@njit(cache=True, nogil=True)
def _order(n, full, current, positives, seed, points, again):
    """Fill `points` and `again` with the points of a pass and whether each is a return; return their number."""
    returns = min(16, n // (4 * positives.shape[0] + 1)) if positives.shape[0] else 0
    segment = (n + returns) // (returns + 1)
    filled = 0
    for part in range(returns + 1):
        for place in range(part * segment, min((part + 1) * segment, n)):
            i = permuted(place, n, seed)
            points[filled], again[filled] = (i if full else current[i]), False
            filled += 1
        if part < returns:
            for offset in range(positives.shape[0]):
                points[filled] = positives[permuted(offset, positives.shape[0], seed + part + 1)]
                again[filled] = True
                filled += 1
    return filled


@njit(cache=True, nogil=True)
def _stepped(loss, a, slack, c, norm):
    if loss == SQUARED_HINGE:
        d = np.float32(0.5) / c
        return max(a + (slack - d * a) / (norm + d), _ZERO)
    if loss == HINGE:
        return min(max(a + slack / max(norm, np.float32(1e-30)), _ZERO), c)
    small = np.float32(math.exp(-abs(_ONE - slack)))
    target = c * (_ONE if slack > _ONE else small) / (_ONE + small)
    return a + (target - a) / (_ONE + np.float32(0.25) * c * norm)


@njit(cache=True, nogil=True)
def _loss_of(loss, slack, c):
    if loss == SQUARED_HINGE:
        return c * max(slack, _ZERO) ** 2
    if loss == HINGE:
        return c * max(slack, _ZERO)
    margin = _ONE - slack
    return c * (math.log1p(math.exp(-abs(margin))) + max(-margin, _ZERO))


@njit(cache=True, nogil=True)
def _dual_of(loss, a, c):
    if loss == SQUARED_HINGE:
        return a - np.float32(0.25) * a * a / c
    if loss == HINGE:
        return a
    share = min(max(a / c, np.float32(1e-30)), np.float32(1 - 6e-8))
    return -c * (share * math.log(share) + (_ONE - share) * math.log1p(-share))


@njit(cache=True, nogil=True)
def _unsettled(loss, a, slack, c, eps):
    return a > _MATTERS * c if loss == LOGISTIC else a > 0 or slack > eps


@njit(cache=True, nogil=True)
def steps(
    loss, width, entries, entry_values, rows, row_values, bias, W_all, dual_all, bias_weights, squares, live, costs,
    cost, chains, positive_ptr, positive_all, lists, list_sizes, list_sides, full, max_passes, goal, seed, first_chain,
    visits,
):  # fmt: skip
    n_points, per = dual_all.shape[1], 32 // width
    for chain in chains:
        group, first = chain // per, (chain % per) * width
        W, duals = W_all[group], dual_all[group]
        positives = positive_all[positive_ptr[chain] : positive_ptr[chain + 1]]
        points, again = np.empty(17 * n_points + 1, np.int64), np.empty(17 * n_points + 1, np.bool_)
        is_full, inner, n_pass, side = full, 0, 0, list_sides[chain]
        n = n_points if full else np.int64(list_sizes[chain])
        while n > 0:
            order_seed = mix(seed + 1000003 * n_pass + (0 if is_full else 7919 * (first_chain + np.int64(chain))))
            places = _order(n, is_full, lists[chain, side], positives, order_seed, points, again)
            sums, kept = np.zeros((2, 32)), 0
            for p in range(places):
                i, held = points[p], False
                start, end = np.int64(rows[i, 0]), np.int64(rows[i, 0] + rows[i, 1])
                norm, weight = row_values[i, 2], row_values[i, 3]
                for column in range(first, first + width):
                    label, raw = group * 32 + column, duals[i, column]
                    z = bias * bias_weights[label]
                    for e in range(start, end):
                        z += entry_values[e, 1] * W[entries[e, 0] // _ROW_BYTES, column]
                    negative = math.copysign(1.0, raw) < 0
                    y, a = (-_ONE if negative else _ONE), abs(raw)
                    c = (cost if negative else costs[label]) * weight
                    slack = _ONE - y * np.float32(z)
                    new = _stepped(loss, a, slack, c, norm) if live[label] > 0 else a
                    change = y * (new - a)
                    if change != 0:
                        duals[i, column] = -new if negative else new
                        bias_weights[label] += bias * change
                        for e in range(start, end):
                            W[entries[e, 0] // _ROW_BYTES, column] += entry_values[e, 1] * change
                        squares[label] += change * (change * norm + 2 * z)
                    if not again[p]:
                        sums[0, column] += _loss_of(loss, slack, c)
                        sums[1, column] += _dual_of(loss, new, c)
                    held |= live[label] > 0 and _unsettled(loss, new, _ZERO, c, _ZERO)
                if held and not again[p]:
                    lists[chain, side ^ 1, kept] = i
                    kept += 1
            visits[0] += np.uint64(places)
            n, side = kept, side ^ 1
            largest = 0.0
            for column in range(first, first + width):
                square = squares[group * 32 + column]
                primal = 0.5 * square + sums[0, column]
                if live[group * 32 + column] > 0:
                    largest = max(largest, (primal - sums[1, column] + 0.5 * square) / max(primal, 1e-12))
            n_pass += 1
            inner += not is_full
            stop = (not is_full and largest <= goal) or inner >= max_passes
            is_full = False
            if stop:
                break
        list_sizes[chain], list_sides[chain] = n, side


@njit(cache=True, nogil=True)
def look(
    loss, entries, entry_values, rows, row_values, bias, W_all, dual_all, bias_weights, live, costs, cost, groups, eps,
    sums, masks,
):  # fmt: skip
    for place in range(groups.shape[0]):
        group = groups[place]
        for i in range(dual_all.shape[1]):
            mask = 0
            for column in range(32):
                label, raw = group * 32 + column, dual_all[group, i, column]
                z = bias * bias_weights[label]
                for e in range(rows[i, 0], rows[i, 0] + rows[i, 1]):
                    z += entry_values[e, 1] * W_all[group, entries[e, 0] // _ROW_BYTES, column]
                negative = math.copysign(1.0, raw) < 0
                a, c = abs(raw), (cost if negative else costs[label]) * row_values[i, 3]
                slack = np.float32(1 + z if negative else 1 - z)
                sums[0, place * 32 + column] += _loss_of(loss, slack, c)
                sums[1, place * 32 + column] += _dual_of(loss, a, c)
                if live[label] > 0 and _unsettled(loss, a, slack, c, eps):
                    mask |= 1 << column
            masks[place, i] = mask


@njit(cache=True, nogil=True)
def weights_of_duals(entries, entry_values, rows, row_values, bias, dual_all, groups, V, V_bias):
    for place in range(groups.shape[0]):
        for i in range(dual_all.shape[1]):
            for column in range(32):
                ay = dual_all[groups[place], i, column]
                if ay != 0:
                    for e in range(rows[i, 0], rows[i, 0] + rows[i, 1]):
                        V[place, entries[e, 0] // _ROW_BYTES, column] += entry_values[e, 1] * ay
                    V_bias[place * 32 + column] += bias * ay
