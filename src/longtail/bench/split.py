"""Points held out for development: drawn at random by a seed, so that a recipe names exactly the same split again."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from longtail.data import Dataset
from longtail.errors import DataError, ParameterError

Rows = NDArray[np.intp]


def check_share(share: float, name: str = "held_out") -> None:
    """Raise ParameterError unless a share of points is a number between 0 and 1."""
    if isinstance(share, bool) or not isinstance(share, (int, float)) or not 0 < share < 1:
        raise ParameterError(f"{name} is {share!r}, but must be a share between 0 and 1")


def hold_out(n_points: int, share: float, seed: int) -> tuple[Rows, Rows]:
    """Return the rows to train on and the rows held out, both sorted.

    Parameters
    ----------
    n_points : int
        Number of points.
    share : float
        Share to hold out; at least one point is on each side.
    seed : int
        Seed of the split.

    Returns
    -------
    train : ndarray
        Row ids to train on.
    dev : ndarray
        Row ids held out.
    """
    check_share(share)
    _check_several(n_points)
    order = np.random.default_rng(seed).permutation(n_points)
    size = min(max(round(share * n_points), 1), n_points - 1)
    return np.sort(order[size:]), np.sort(order[:size])


def folds(n_points: int, number: int, seed: int) -> Iterator[tuple[Rows, Rows]]:
    """Yield the rows to train on and the rows held out, once per fold; every point is held out once.

    Parameters
    ----------
    n_points : int
        Number of points.
    number : int
        Number of folds.
    seed : int
        Seed of the split.

    Yields
    ------
    train, dev : ndarray
        Row ids, both sorted.
    """
    _check_several(n_points)
    if number > n_points:
        raise DataError(f"{n_points} points cannot be split into {number} folds; use fewer")
    order = np.random.default_rng(seed).permutation(n_points)
    for piece in np.array_split(order, number):
        yield np.sort(np.setdiff1d(order, piece)), np.sort(piece)


def sampled(data: Dataset, size: int, seed: int) -> Dataset:
    """Return the dataset of `size` points drawn at random, in their order; all of them if there are no more."""
    if size >= data.n_points:
        return data
    return data.subset(np.sort(np.random.default_rng(seed).permutation(data.n_points)[:size]))


def _check_several(n_points: int) -> None:
    if n_points < 2:
        raise DataError("one point cannot be split into points to train on and points held out; use more points")
