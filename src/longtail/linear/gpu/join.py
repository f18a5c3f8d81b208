"""Weights of several waves, put together by feature."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from longtail.core.compiled import njit
from longtail.core.threads import each_in_threads
from longtail.linear.gpu.backend import Pruned
from longtail.linear.weights import raw

_ENTRIES_AT_A_TIME = 2**20


def joined_by_feature(parts: Sequence[Pruned], n_features: int) -> tuple[NDArray[np.int64], NDArray, NDArray]:
    """Return the weights of all parts as one matrix in CSR form, classifiers rising within a feature.

    Parameters
    ----------
    parts : sequence of Pruned
        Each has its own classifiers. If some have float32 weights, so has the result.
    n_features : int
        Number of features.
    """
    if len(parts) == 1:
        return parts[0].indptr, parts[0].classifiers, parts[0].values
    dtype = np.result_type(*(part.values.dtype for part in parts)) if parts else np.float32
    indptr = np.sum([part.indptr for part in parts], axis=0) if parts else np.zeros(n_features + 1, np.int64)
    classifiers = np.empty(indptr[-1], parts[0].classifiers.dtype if parts else np.uint16)
    values = np.empty(indptr[-1], dtype)
    held = [(part.indptr, part.classifiers, raw(part.values.astype(dtype, copy=False))) for part in parts]
    cuts = np.searchsorted(indptr, np.arange(0, indptr[-1] + _ENTRIES_AT_A_TIME, _ENTRIES_AT_A_TIME))
    cuts = np.unique(np.concatenate([[0], np.minimum(cuts, n_features), [n_features]]))

    def work(number: int) -> None:
        first, end = int(cuts[number]), int(cuts[number + 1])
        filled = indptr[first:end].copy()
        for part in held:
            _append(*part, first, end, filled, classifiers, raw(values))
        _sort_rows(indptr, first, end, classifiers, raw(values))

    each_in_threads(work, range(cuts.size - 1))
    return indptr, classifiers, values


@njit(cache=True, nogil=True)
def _append(indptr, part_classifiers, part_values, first, end, filled, classifiers, values):
    for f in range(first, end):
        at = filled[f - first]
        for p in range(indptr[f], indptr[f + 1]):
            classifiers[at], values[at] = part_classifiers[p], part_values[p]
            at += 1
        filled[f - first] = at


@njit(cache=True, nogil=True)
def _sort_rows(indptr, first, end, classifiers, values):
    for f in range(first, end):
        row = slice(indptr[f], indptr[f + 1])
        order = np.argsort(classifiers[row])
        classifiers[row], values[row] = classifiers[row][order], values[row][order]
