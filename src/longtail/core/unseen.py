"""Predictions of a base for points that it was not trained on: by cross-fitting, or on held-out points.

A module that learned from the scores of training points would learn how well the base remembers them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from longtail.core.inputs import n_rows
from longtail.core.parameters import check_whole
from longtail.core.predictions import Predictions
from longtail.core.run import Run
from longtail.errors import DataError, ParameterError

if TYPE_CHECKING:
    from longtail.core.estimator import Estimator

_CHUNK = 4096  # points; bounds the memory of a prediction


@dataclass(frozen=True, eq=False)
class Unseen:
    """Predictions for points that the base was not trained on.

    Parameters
    ----------
    rows : ndarray of shape (n,)
        Which points.
    predictions : Predictions
        Their predictions.
    groups : ndarray of shape (n, k)
        Which of the models inside the base gave each score; see `score_groups`.
    """

    rows: NDArray[np.intp]
    predictions: Predictions
    groups: NDArray[np.int8]


@dataclass(kw_only=True, eq=False, repr=False)
class Splits:
    """Parameters of the modules that learn from unseen points: how points are held out from a base.

    Parameters
    ----------
    folds : int, default 3
        Train the base this many times, each time without one fold of the points, which it then predicts.
    held_out : float or None, default None
        Share of the points to hold out from a single training, instead of folds (cheaper).
    sample : int, default 100,000
        Largest number of points to predict, chosen at random, so that memory does not grow with their number.
    random_state : int, default 0
        Seed of the split.
    """

    folds: int = 3
    held_out: float | None = None
    sample: int = 100_000
    random_state: int = 0

    def check_splits(self) -> None:
        """Raise ParameterError for values that cannot be used."""
        check_whole("folds", self.folds, 2)
        check_whole("sample", self.sample, 1)
        check_whole("random_state", self.random_state, 0)
        share = self.held_out
        if share is not None and not (isinstance(share, (int, float, np.number)) and 0 < share < 1):
            raise ParameterError(f"held_out is {share!r}, but must be a share between 0 and 1, or None for folds")

    def split(self, n_points: int) -> Iterator[tuple[NDArray[np.intp], NDArray[np.intp]]]:
        """Yield (points to train on, points to predict), both sorted, once per training."""
        if n_points < 2:
            raise DataError("one point cannot be split into points to train on and points to predict; use more points")
        order = np.random.default_rng(self.random_state).permutation(n_points)
        if self.held_out is not None:
            size = min(max(round(self.held_out * n_points), 1), n_points - 1)
            pieces = [order[:size]]
        else:
            pieces = np.array_split(order, min(self.folds, n_points))
        total = sum(piece.size for piece in pieces)
        for piece in pieces:
            left = np.ones(n_points, dtype=np.bool_)
            left[piece] = False
            wanted = max(round(min(self.sample, total) * piece.size / total), 1)
            yield np.flatnonzero(left), np.sort(piece[:wanted])


def predict_unseen(
    new_base: Callable[[], Any],
    X: Any,
    Y: sparse.csr_matrix,
    splits: Splits,
    *,
    k: int,
    run: Run,
    label_names: list[str] | None = None,
    name: str = "unseen",
) -> Unseen:
    """Train bases and return predictions for the points that each was trained without.

    The points and their order depend only on `splits` and the number of points.

    Parameters
    ----------
    new_base : callable
        Returns an unfitted base.
    X : csr_matrix or sequence of str
        Points.
    Y : csr_matrix
        Observed labels.
    splits : Splits
        How points are held out.
    k : int
        Labels per point.
    run : Run
        Where to show progress and keep finished parts.
    label_names : list of str, optional
        Names of the labels.
    name : str, default "unseen"
        Prefix of the parts in the checkpoint.

    Returns
    -------
    Unseen
    """

    def fold(numbered: tuple[int, tuple[NDArray[np.intp], NDArray[np.intp]]]) -> dict[str, NDArray[Any]]:
        number, (train, test) = numbered
        part = f"{name}-{number:03d}"
        saved = run.checkpoint.get(part) if run.checkpoint else None
        if saved is None:
            own = run.part(part)
            base = new_base().fit(rows_of(X, train), Y[train], label_names=label_names, run=own)
            best = predict_rows(base, X, test, k)
            saved = {"labels": best.labels, "scores": best.scores, "groups": score_groups(base, best.labels)}
            if run.checkpoint and own.checkpoint:
                run.checkpoint.put(part, saved)
                own.checkpoint.clear()
        return {**saved, "rows": test}

    found = run.each(fold, enumerate(splits.split(n_rows(X))))
    return Unseen(
        np.concatenate([one["rows"] for one in found]),
        Predictions.concatenate([Predictions(one["labels"], one["scores"]) for one in found]),
        np.concatenate([one["groups"] for one in found]),
    )


def score_groups(base: Any, labels: NDArray[np.int32]) -> NDArray[np.int8]:
    """Return which of the models inside a base gives the scores of these labels; 0 if all have the same scale.

    Bases trained on different points may differ in this: Taug splits labels by their number of points.
    """
    groups = base.score_groups_
    return np.zeros(labels.shape, np.int8) if groups is None else groups[labels]


def n_score_groups(base: Any) -> int:
    """Return the number of models inside a base whose scores differ in scale."""
    groups = base.score_groups_
    return 1 if groups is None else int(groups.max()) + 1


def predict_given(base: Any, X: Any, splits: Splits, *, k: int) -> Unseen:
    """Return predictions of a base that was fitted on other points, for at most `splits.sample` of these points."""
    rows = np.sort(np.random.default_rng(splits.random_state).permutation(n_rows(X))[: splits.sample])
    found = predict_rows(base, X, rows, k)
    return Unseen(rows, found, score_groups(base, found.labels))


def predict_rows(base: Estimator, X: Any, rows: NDArray[np.intp], k: int) -> Predictions:
    """Return predictions for some of the points, made in chunks."""
    starts = range(0, rows.size, _CHUNK)
    return Predictions.concatenate([base.predict(rows_of(X, rows[i : i + _CHUNK]), k=k) for i in starts])


def rows_of(X: Any, rows: NDArray[np.intp]) -> Any:
    """Return some of the points, in this order: of a matrix, of `Texts` (which stay packed), or of other texts."""
    if hasattr(X, "shape"):
        return X[rows]
    return X.subset(rows) if hasattr(X, "subset") else [X[int(row)] for row in rows]
