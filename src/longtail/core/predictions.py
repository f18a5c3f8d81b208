"""Ranked labels for a set of points: two arrays, best first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from longtail.core.parameters import check_number
from longtail.errors import DataError, MissingExtraError, ParameterError

PAD_LABEL = -1
PAD_SCORE = -np.inf


@dataclass(frozen=True, eq=False)
class Predictions:
    """The k best labels of n points, with their scores.

    Parameters
    ----------
    labels : ndarray of shape (n, k)
        Label ids as int32, best first, ties by the lower id. A row with fewer than k labels ends in -1, and a label
        with score -inf becomes -1.
    scores : ndarray of shape (n, k)
        Scores as float32, non-increasing along a row; -inf where the label is -1. Probabilities (`calibrated=True`)
        may rise along a row: the order is that of the model.
    n_labels : int, optional
        Number of labels of the model.
    label_names : list of str, optional
        Names of its labels.

    Raises
    ------
    DataError
        If the shapes differ, an id is below -1, or a score is NaN.
    """

    labels: NDArray[np.int32]
    scores: NDArray[np.float32]
    n_labels: int | None = None
    label_names: list[str] | None = None

    def __post_init__(self) -> None:
        labels = np.ascontiguousarray(self.labels, dtype=np.int32)
        scores = np.ascontiguousarray(self.scores, dtype=np.float32)
        if labels.ndim != 2 or labels.shape != scores.shape:
            raise DataError(
                f"labels and scores must both have shape (points, k); got {labels.shape} and {scores.shape}"
            )
        if labels.size and labels.min() < PAD_LABEL:
            raise DataError(f"a predicted label id is {labels.min()}; ids start at 0, and -1 pads a row")
        if np.isnan(scores).any():
            raise DataError("a predicted score is NaN")
        none = np.isneginf(scores)
        if (labels[none] != PAD_LABEL).any():  # an impossible label, e.g. one without training points
            labels = np.where(none, np.int32(PAD_LABEL), labels)
        object.__setattr__(self, "labels", labels)
        object.__setattr__(self, "scores", scores)

    def __len__(self) -> int:
        return int(self.labels.shape[0])

    def __getitem__(self, rows: slice | NDArray[np.intp] | NDArray[np.bool_]) -> Predictions:
        return replace(self, labels=self.labels[rows], scores=self.scores[rows])

    @property
    def k(self) -> int:
        """Labels per point, padding included."""
        return int(self.labels.shape[1])

    def top(self, k: int) -> Predictions:
        """Return the k best labels per point, for k up to `self.k`."""
        if not 1 <= k <= self.k:
            raise ParameterError(f"k is {k}, but there are {self.k} labels per point")
        return replace(self, labels=self.labels[:, :k], scores=self.scores[:, :k])

    def labelled(self, n_labels: int, label_names: list[str] | None) -> Predictions:
        """Return the same predictions, with the number of labels and their names."""
        return replace(self, n_labels=n_labels, label_names=label_names)

    def without(self, rows: NDArray[np.bool_]) -> Predictions:
        """Return the predictions with nothing but padding in the rows of a mask."""
        if not rows.any():
            return self
        labels, scores = self.labels.copy(), self.scores.copy()
        labels[rows], scores[rows] = PAD_LABEL, PAD_SCORE
        return replace(self, labels=labels, scores=scores)

    def at_least(self, threshold: float) -> Predictions:
        """Return the predictions without labels whose score is below a threshold; rows get shorter, k stays."""
        check_number("threshold", threshold)
        low = self.scores < threshold
        labels, scores = np.where(low, PAD_LABEL, self.labels), np.where(low, PAD_SCORE, self.scores)
        if (low[:, :-1] & ~low[:, 1:]).any():  # probabilities need not fall along a row; padding comes last
            order = np.argsort(low, axis=1, kind="stable")
            labels, scores = np.take_along_axis(labels, order, axis=1), np.take_along_axis(scores, order, axis=1)
        return replace(self, labels=labels, scores=scores)

    @property
    def empty(self) -> NDArray[np.bool_]:
        """Which points have no label at all, (n,)."""
        return np.asarray((self.labels < 0).all(axis=1))

    def rows(self, names: Sequence[str] | None = None) -> Iterator[list[tuple[Any, float]]]:
        """Yield the (label, score) pairs of each point, without padding.

        Parameters
        ----------
        names : sequence of str, optional
            Label names to use instead of ids.

        Yields
        ------
        list of tuple
            Pairs of one point, best first.
        """
        for labels, scores in zip(self.labels, self.scores, strict=True):
            kept = labels >= 0
            ids = labels[kept].tolist()
            yield list(zip(ids if names is None else [names[i] for i in ids], scores[kept].tolist(), strict=True))

    @property
    def names(self) -> list[list[str]]:
        """Names of the labels of each point, best first, without padding."""
        if self.label_names is None:
            raise ParameterError("the model has no label names; give them to fit (label_names=), or use labels")
        return [[self.label_names[label] for label in row if label >= 0] for row in self.labels.tolist()]

    def to_frame(self, names: Sequence[str] | None = None, *, ids: Sequence[Any] | None = None) -> Any:
        """Return the predictions as a pandas DataFrame, one row per predicted label.

        Parameters
        ----------
        names : sequence of str, optional
            One name per label; by default those of the model.
        ids : sequence, optional
            One id per point, instead of its position.

        Returns
        -------
        pandas.DataFrame
            With the columns `point`, `rank` (from 1), `label` (its name, or its id without names) and `score`.
        """
        try:
            import pandas
        except ImportError as error:
            raise MissingExtraError("pandas", "pandas", "a DataFrame of predictions") from error
        if ids is not None and len(ids) != len(self):
            raise DataError(f"there are {len(self)} points, but {len(ids)} ids")
        points, places = np.nonzero(self.labels >= 0)
        labels = self.labels[points, places].tolist()
        names = self.label_names if names is None else names
        if names is not None and len(names) <= max(labels, default=-1):
            raise DataError(f"label {max(labels)} is predicted, but there are only {len(names)} names")
        return pandas.DataFrame(
            {
                "point": points if ids is None else [ids[point] for point in points.tolist()],
                "rank": places + 1,
                "label": labels if names is None else [names[label] for label in labels],
                "score": self.scores[points, places],
            }
        )

    def to_indicator(self, threshold: float | None = None, *, n_labels: int | None = None) -> sparse.csr_matrix:
        """Return the predicted labels as a 0/1 matrix, as scikit-learn's multi-label metrics take it.

        Parameters
        ----------
        threshold : float, optional
            Leave out labels with lower scores; by default all k labels per point are ones.
        n_labels : int, optional
            Number of columns; by default that of the model that predicted.

        Returns
        -------
        csr_matrix of shape (n, n_labels)
        """
        width = self.n_labels if n_labels is None else n_labels
        if width is None:
            raise ParameterError("the number of labels is unknown; give n_labels")
        matrix = (self if threshold is None else self.at_least(threshold)).to_csr(width)
        matrix.data[:] = 1
        return matrix

    def to_csr(self, n_labels: int) -> sparse.csr_matrix:
        """Return the scores as a sparse (n, n_labels) matrix; zeros are stored explicitly, so that no label is lost."""
        kept = self.labels >= 0
        if kept.any() and self.labels.max() >= n_labels:
            raise ParameterError(f"n_labels is {n_labels}, but label {self.labels.max()} is predicted")
        indptr = np.zeros(len(self) + 1, dtype=np.int64)
        np.cumsum(kept.sum(axis=1), out=indptr[1:])
        matrix = sparse.csr_matrix((self.scores[kept], self.labels[kept], indptr), shape=(len(self), n_labels))
        matrix.sort_indices()
        return matrix

    @classmethod
    def from_csr(cls, matrix: sparse.csr_matrix, k: int) -> Predictions:
        """Return the k best stored entries per row.

        Parameters
        ----------
        matrix : csr_matrix of shape (n, n_labels)
            Scores; entries that are not stored are never predicted.
        k : int
            Labels per point.

        Returns
        -------
        Predictions
        """
        from longtail.core import topk  # here: code that has ranked arrays need not load Numba

        matrix = sparse.csr_matrix(matrix)
        labels, scores = empty_top(matrix.shape[0], k)
        topk.top_of_sparse_rows(
            matrix.indptr.astype(np.int64), matrix.indices, matrix.data.astype(np.float32), labels, scores
        )
        return cls(labels, scores)

    @classmethod
    def from_dense(cls, matrix: ArrayLike, k: int) -> Predictions:
        """Return the k best columns per row.

        Parameters
        ----------
        matrix : array of shape (n, n_labels)
            Scores; -inf is never predicted.
        k : int
            Labels per point.

        Returns
        -------
        Predictions
        """
        from longtail.core import topk

        dense = np.ascontiguousarray(matrix, dtype=np.float32)
        labels, scores = empty_top(dense.shape[0], k)
        topk.top_of_dense_rows(dense, labels, scores)
        return cls(labels, scores)

    @classmethod
    def concatenate(cls, parts: Sequence[Predictions]) -> Predictions:
        """Return the predictions of all parts, one after another; all must have the same k."""
        labels, scores = (np.concatenate([getattr(p, field) for p in parts]) for field in ("labels", "scores"))
        return cls(labels, scores, parts[0].n_labels, parts[0].label_names)


def empty_top(n_points: int, k: int) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """Return arrays for the k best labels and scores of n points, filled with padding."""
    return np.full((n_points, k), PAD_LABEL, np.int32), np.full((n_points, k), PAD_SCORE, np.float32)
