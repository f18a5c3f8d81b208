"""Kernels that parse XC-repository lines (`l1,l2 f:v f:v`) in a block of bytes.

A block ends with a newline, so every inner loop meets a byte that stops it before the block ends.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from longtail.core.compiled import njit

Bytes = NDArray[np.uint8]
Ints = NDArray[np.int32]
Longs = NDArray[np.int64]
Floats = NDArray[np.float32]

# Error codes of `parse_lines`; `xc.py` turns them into messages.
NO_ERROR, NOT_A_NUMBER, NEGATIVE, LABEL_RANGE, FEATURE_RANGE, NO_COLON, BAD_VALUE, STRAY = range(8)

# Powers of ten up to 1e63 suffice: the last of 19 digits of a float32 is worth at least 1e-57.
POWERS = np.array([float(f"1e{e}") for e in range(64)], dtype=np.float64)
_TAB, _NEWLINE, _RETURN, _SPACE, _PLUS, _COMMA, _MINUS, _POINT, _ZERO, _COLON = 9, 10, 13, 32, 43, 44, 45, 46, 48, 58
_UPPER_E, _LOWER_E = 69, 101
_MAX_EXPONENT = 9_999  # Python converts larger ones
# Python converts values outside the normal float32 range.
_SMALLEST, _LARGEST = 1.2e-38, 3.4e38


@njit(cache=True, nogil=True)
def count_marks(block: Bytes) -> tuple[int, int, int]:
    """Count newlines, commas and colons in the block: upper bounds for what `parse_lines` finds."""
    newlines = commas = colons = 0
    for byte in block:
        newlines += byte == _NEWLINE
        commas += byte == _COMMA
        colons += byte == _COLON
    return newlines, commas, colons


@njit(cache=True, nogil=True)
def _exact_single(digits: np.uint64, exponent: int) -> tuple[float, bool]:
    """Return digits * 10^exponent as a double, up to a few units in the last place, and whether that is exact enough.

    The caller rounds to float32, which drops 29 bits. If those bits are not within 8 of the half-way point, the error
    of at most 3 units (conversion, power, product) cannot change the rounding.
    """
    if digits == 0:
        return 0.0, True
    if exponent >= 0:
        if exponent >= POWERS.shape[0]:
            return 0.0, False
        value = np.float64(digits) * POWERS[exponent]
    else:
        if -exponent >= POWERS.shape[0]:
            return 0.0, False
        value = np.float64(digits) / POWERS[-exponent]
    if value < _SMALLEST or value > _LARGEST:
        return 0.0, False
    dropped = np.int64(np.float64(value).view(np.int64) & np.int64((1 << 29) - 1))
    return value, bool(abs(dropped - np.int64(1 << 28)) > 8)


@njit(cache=True, nogil=True)
def parse_value(block: Bytes, start: int) -> tuple[float, int, bool, bool]:
    """Parse the decimal number at `start`: (value, end, whether it is a number, whether it is exact to float32)."""
    at = start
    negative = block[at] == _MINUS
    if negative or block[at] == _PLUS:
        at += 1
    digits = np.uint64(0)
    kept = seen = dropped = after_point = 0
    past_point = False
    while True:
        byte = block[at]
        if _ZERO <= byte <= _ZERO + 9:
            seen += 1
            if kept < 19:  # 19 digits fit into 64 bits; the rest is below the precision of a double
                digits = digits * np.uint64(10) + np.uint64(byte - _ZERO)
                kept += digits != 0
                after_point += past_point
            elif not past_point:
                dropped += 1
        elif byte == _POINT and not past_point:
            past_point = True
        else:
            break
        at += 1
    if seen == 0:
        return 0.0, at, False, False
    exponent = 0
    if block[at] == _LOWER_E or block[at] == _UPPER_E:
        at += 1
        minus = block[at] == _MINUS
        if minus or block[at] == _PLUS:
            at += 1
        first = at
        while _ZERO <= block[at] <= _ZERO + 9:
            exponent = min(exponent * 10 + int(block[at]) - _ZERO, _MAX_EXPONENT)
            at += 1
        if at == first:
            return 0.0, at, False, False
        if minus:
            exponent = -exponent
    value, exact = _exact_single(digits, exponent + dropped - after_point)
    return (-value if negative else value), at, True, exact and abs(exponent) < _MAX_EXPONENT


@njit(cache=True, nogil=True, inline="always")
def _parse_index(block: Bytes, at: int) -> tuple[int, int]:
    """Return the digits at `at` as a number (capped above every valid index) and their end."""
    index = 0
    while _ZERO <= block[at] <= _ZERO + 9:
        index = min(index * 10 + int(block[at]) - _ZERO, 1 << 40)
        at += 1
    return index, at


@njit(cache=True, nogil=True, inline="always")
def _is_gap(byte: int) -> bool:
    return byte in (_SPACE, _TAB)


@njit(cache=True, nogil=True, inline="always")
def _is_line_end(block: Bytes, at: int) -> bool:
    return block[at] == _NEWLINE or (block[at] == _RETURN and block[at + 1] == _NEWLINE)


@njit(cache=True, nogil=True)
def _parse_labels(block: Bytes, at: int, limit: int, labels: Ints, n: int) -> tuple[int, int, int, bool]:
    """Parse the labels at the start of a line: (error, where, labels so far, whether strictly increasing).

    A first number followed by a colon is not a label, but the first feature of the line, and is left there.
    """
    first, rising, start = n, True, at
    if _is_gap(block[at]) or _is_line_end(block, at):
        return NO_ERROR, at, n, rising
    while True:
        if not _ZERO <= block[at] <= _ZERO + 9:
            return (NEGATIVE if block[at] == _MINUS else NOT_A_NUMBER), at, n, rising
        label, end = _parse_index(block, at)
        if block[end] == _COLON and n == first:
            return NO_ERROR, start, n, rising
        if label >= limit:
            return LABEL_RANGE, at, n, rising
        if n > first and label <= labels[n - 1]:
            rising = False
        labels[n] = label
        n += 1
        if block[end] == _COMMA:
            at = end + 1
        elif _is_gap(block[end]) or _is_line_end(block, end):
            return NO_ERROR, end, n, rising
        else:
            return STRAY, at, n, rising


@njit(cache=True, nogil=True)
def parse_lines(
    block: Bytes, label_limit: int, feature_limit: int, labels: Ints, label_ends: Longs,
    features: Ints, values: Floats, feature_ends: Longs, inexact: Longs,
) -> tuple[int, int, int, int, int, bool, bool]:  # fmt: skip
    """Parse all lines of the block into the given arrays, whose sizes come from `count_marks`.

    `inexact` receives (byte, feature) pairs of the values that Python has to convert, to get the last bit right.
    Returns (error, its byte, lines, features, values in inexact, whether labels increase in all lines, features too).
    """
    at = line = n_labels = n_features = n_inexact = 0
    labels_rise = features_rise = True
    while at < block.shape[0]:
        error, at, n_labels, rising = _parse_labels(block, at, label_limit, labels, n_labels)
        labels_rise &= rising
        if error != NO_ERROR:
            return error, at, line, n_features, n_inexact, labels_rise, features_rise
        previous = -1
        while True:
            while _is_gap(block[at]):
                at += 1
            if _is_line_end(block, at):
                break
            start = at
            feature, at = _parse_index(block, at)
            error = NO_ERROR
            if at == start:
                error = NEGATIVE if block[at] == _MINUS else NOT_A_NUMBER
            elif block[at] != _COLON:
                error = NO_COLON
            elif feature >= feature_limit:
                error = FEATURE_RANGE
            if error != NO_ERROR:
                return error, start, line, n_features, n_inexact, labels_rise, features_rise
            value, end, is_number, exact = parse_value(block, at + 1)
            if not is_number or not (_is_gap(block[end]) or _is_line_end(block, end)):
                return BAD_VALUE, start, line, n_features, n_inexact, labels_rise, features_rise
            if not exact:
                inexact[2 * n_inexact], inexact[2 * n_inexact + 1] = at + 1, n_features
                n_inexact += 1
            features_rise &= feature > previous
            previous = feature
            features[n_features], values[n_features] = feature, value
            n_features += 1
            at = end
        at += 2 if block[at] == _RETURN else 1
        label_ends[line], feature_ends[line] = n_labels, n_features
        line += 1
    return NO_ERROR, at, line, n_features, n_inexact, labels_rise, features_rise
