"""Inner product of a point with a sparse row: a hyperplane, a mean or a classifier."""

from __future__ import annotations

from longtail.core.compiled import njit

_MANY_VALUES = 16  # a row with this many times the point's features is searched for them instead of read in full


@njit(cache=True, nogil=True)
def add_product(total, point, indices, values):
    """Return total + row . x.

    Parameters
    ----------
    total : float32
        What the product is added to.
    point : (indices, values, dense)
        The point x in sparse and in dense form, indices sorted.
    indices : array
        Indices of the row, sorted.
    values : array
        Values of the row.
    """
    own_indices, own_values, dense = point
    if indices.shape[0] > _MANY_VALUES * own_indices.shape[0]:
        return _add_found(total, own_indices, own_values, indices, values)
    for p in range(indices.shape[0]):
        total += values[p] * dense[indices[p]]
    return total


@njit(cache=True, nogil=True)
def _add_found(total, own_indices, own_values, indices, values):
    """Add the same terms in the same order, by searching the row for the features of x.

    Rows of upper nodes and of frequent labels have thousands of values, while short texts have a dozen features.
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
