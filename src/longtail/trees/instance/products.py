"""The product of a point with a sparse row: of a hyperplane, a mean, a classifier."""

from __future__ import annotations

from numba import njit

_MANY_VALUES = 16  # times as many as the point has features: looking these up is quicker than reading all


@njit(cache=True, nogil=True)
def add_product(total, point, indices, values):
    """total + row . x. point: (indices, values, dense), the point in both forms; indices of both are sorted."""
    own_indices, own_values, dense = point
    if indices.shape[0] > _MANY_VALUES * own_indices.shape[0]:
        return _add_found(total, own_indices, own_values, indices, values)
    for p in range(indices.shape[0]):
        total += values[p] * dense[indices[p]]
    return total


@njit(cache=True, nogil=True)
def _add_found(total, own_indices, own_values, indices, values):
    """The same terms in the same order, looking for the features of x among those of the row.

    Rows of upper nodes and of frequent labels have thousands of values, short texts a dozen features.
    """
    low, n = 0, indices.shape[0]
    for p in range(own_indices.shape[0]):
        feature, high = own_indices[p], n
        while low < high:
            middle = (low + high) >> 1
            if indices[middle] < feature:
                low = middle + 1
            else:
                high = middle
        if low == n:
            break
        if indices[low] == feature:
            total += values[low] * own_values[p]
    return total
