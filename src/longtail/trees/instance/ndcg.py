"""Divide the points of a node into two sides by alternating optimisation of nDCG (Jain et al. 2016, section 6)."""

from __future__ import annotations

import numpy as np

from longtail.core.compiled import njit

_LEAST_GAIN = 1e-6  # of the objective (mean nDCG of the points) that a round must bring
_MAX_ROUNDS = 100
_MANY_LABELS = 2000  # from here on a radix sort is faster than a merge sort, up to ten times
_DIGIT, _DIGITS = np.uint64(11), 6  # bits per digit, digits per float64


@njit(cache=True, nogil=True)
def alternate(labels, sides):
    """Move points between the two sides until no point moves or a round brings too little.

    A round ranks the labels of each side by the sum of their gains there (ties by the lower id), then sends each point
    to the side whose ranking gives it the higher nDCG; with equal nDCG it stays. Both steps raise the same objective,
    so this converges.

    Parameters
    ----------
    labels : (indptr, ids, gains)
        Labels of the node's points, ids numbered from 0 within the node. The gain of label l at point i is
        I_i y_il / p_l, with I_i the inverse of the point's ideal DCG.
    sides : (n,) array of float32
        +1 or -1 per point; updated.
    """
    indptr, ids, gains = labels
    n, m = sides.shape[0], np.int64(ids.max()) + 1 if ids.shape[0] else 0
    discounts = 1.0 / np.log2(np.arange(m) + 2.0)
    sums, difference = np.empty((2, m), np.float64), np.empty(m, np.float64)
    reached = -np.inf
    for _ in range(_MAX_ROUNDS):
        sums[:] = 0
        for i in range(n):
            side = 1 if sides[i] > 0 else 0
            for q in range(indptr[i], indptr[i + 1]):
                sums[side, ids[q]] += gains[q]
        difference[:] = 0
        objective = 0.0
        for side in range(2):
            ranking = by_falling_sums(sums[side])
            for rank in range(m):
                difference[ranking[rank]] += discounts[rank] if side == 1 else -discounts[rank]
                objective += discounts[rank] * sums[side, ranking[rank]]
        moved = _move(indptr, ids, gains, difference, sides)
        if moved == 0 or objective - reached < _LEAST_GAIN * n:
            return
        reached = objective


@njit(cache=True, nogil=True)
def by_falling_sums(sums):
    """Return the labels by falling sums (all at least 0), ties by the lower id."""
    if sums.shape[0] < _MANY_LABELS:
        return np.argsort(-sums, kind="mergesort")
    keys = ~sums.view(np.uint64)  # floats that are not negative sort as their bits do
    last = np.uint64(2**_DIGIT - 1)
    counts = np.zeros((_DIGITS, 2**_DIGIT), np.int64)
    for key in keys:
        for digit in range(_DIGITS):
            counts[digit, (key >> (_DIGIT * np.uint64(digit))) & last] += 1
    order, other = np.arange(sums.shape[0]), np.empty(sums.shape[0], np.int64)
    for digit in range(_DIGITS):
        shift, places = _DIGIT * np.uint64(digit), counts[digit]
        if places[(keys[0] >> shift) & last] == sums.shape[0]:
            continue  # this digit is the same for all
        place = 0
        for value in range(places.shape[0]):
            place, places[value] = place + places[value], place
        for label in order:
            value = (keys[label] >> shift) & last
            other[places[value]] = label
            places[value] += 1
        order, other = other, order
    return order


@njit(cache=True, nogil=True)
def _move(indptr, ids, gains, difference, sides):
    moved = 0
    for i in range(sides.shape[0]):
        better = 0.0
        for q in range(indptr[i], indptr[i + 1]):
            better += gains[q] * difference[ids[q]]
        side = sides[i]
        if better > 0:
            side = np.float32(1)
        elif better < 0:
            side = np.float32(-1)
        moved += side != sides[i]
        sides[i] = side
    return moved
