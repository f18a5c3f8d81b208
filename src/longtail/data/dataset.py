"""Points with their labels: what readers return and writers take."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from longtail.core.inputs import check_features, check_label_names, check_label_strings, check_labels
from longtail.data.texts import Texts
from longtail.errors import DataError


@dataclass(frozen=True, eq=False)
class Dataset:
    """n points with labels, and with features, texts, or both.

    Parameters
    ----------
    Y : (n, L) sparse or dense 0/1 matrix, or one list of label ids per point
        Labels, stored as CSR of float32 ones. Numbers between 0 and 1 are relevances of labels, and are kept.
    X : (n, D) sparse or dense matrix, optional
        Features, stored as CSR float32.
    texts : iterable of n strings, optional
        Texts, stored as `Texts`.
    label_names : sequence of L distinct strings, optional
        Names of the columns of `Y`.
    label_texts : sequence of L strings, optional
        Texts that describe the labels.
    label_parents : mapping of a label name to the names of its direct parents, optional
        Label hierarchy, by name and not by id: it may contain ancestors that are not in `label_names`.
    ids : iterable of n strings or whole numbers, optional
        Identifiers of the points, such as record numbers, stored as `Texts`.
    weights : sequence of n numbers greater than 0, optional
        How much each point counts in training, stored as float32.

    Raises
    ------
    DataError
        If neither `X` nor `texts` is given, or the sizes do not match.
    """

    Y: sparse.csr_matrix
    X: sparse.csr_matrix | None = None
    texts: Texts | None = None
    label_names: list[str] | None = None
    label_texts: list[str] | None = None
    label_parents: dict[str, list[str]] | None = None
    ids: Texts | None = None
    weights: NDArray[np.float32] | None = None

    def __post_init__(self) -> None:
        if self.X is None and self.texts is None:
            raise DataError("a dataset needs features (X), texts, or both; got neither")
        X = None if self.X is None else check_features(self.X)
        texts = None if self.texts is None else _texts(self.texts)
        ids = None if self.ids is None else _ids(self.ids)
        n_points = int(X.shape[0]) if X is not None else len(texts or ())
        if texts is not None and len(texts) != n_points:
            raise DataError(f"X has {n_points} points, but there are {len(texts)} texts")
        Y = check_labels(self.Y, relevances=True)
        if Y.shape[0] != n_points:
            raise DataError(f"{'X has' if X is not None else 'there are'} {n_points} points, but Y has {Y.shape[0]}")
        if ids is not None and len(ids) != n_points:
            raise DataError(f"there are {n_points} points, but {len(ids)} ids")
        names = check_label_names(self.label_names, Y.shape[1])
        object.__setattr__(self, "X", X)
        object.__setattr__(self, "Y", Y)
        object.__setattr__(self, "texts", texts)
        object.__setattr__(self, "ids", ids)
        object.__setattr__(self, "weights", _weights(self.weights, n_points))
        object.__setattr__(self, "label_names", names)
        object.__setattr__(self, "label_texts", check_label_strings("label_texts", self.label_texts, Y.shape[1]))
        object.__setattr__(self, "label_parents", _parents(self.label_parents, names))

    @property
    def n_points(self) -> int:
        """Number of points, n."""
        return int(self.Y.shape[0])

    @property
    def n_labels(self) -> int:
        """Number of labels, L."""
        return int(self.Y.shape[1])

    @property
    def n_features(self) -> int | None:
        """Number of features, D; None without features."""
        return None if self.X is None else int(self.X.shape[1])

    @property
    def label_counts(self) -> NDArray[np.int64]:
        """Number of points per label, (L,)."""
        return np.bincount(self.Y.indices, minlength=self.n_labels).astype(np.int64)

    @property
    def has_relevances(self) -> bool:
        """Return whether a label has a relevance below 1."""
        return bool((self.Y.data != 1).any())

    def binary(self) -> Dataset:
        """Return the dataset without relevances: every label has the value 1.

        Returns
        -------
        Dataset
            This one if it has no relevances.
        """
        if not self.has_relevances:
            return self
        ones = np.ones_like(self.Y.data)
        return replace(self, Y=sparse.csr_matrix((ones, self.Y.indices, self.Y.indptr), shape=self.Y.shape))

    def subset(self, rows: ArrayLike) -> Dataset:
        """Return the dataset of these points; labels and features keep their ids.

        Parameters
        ----------
        rows : array_like
            Row ids, in the order wanted, or a boolean mask.

        Returns
        -------
        Dataset
        """
        chosen = np.arange(self.n_points)[np.asarray(rows)]
        return replace(
            self,
            Y=self.Y[chosen],
            X=None if self.X is None else self.X[chosen],
            texts=None if self.texts is None else self.texts.subset(chosen),
            ids=None if self.ids is None else self.ids.subset(chosen),
            weights=None if self.weights is None else self.weights[chosen],
        )

    def __repr__(self) -> str:
        kind = "texts" if self.X is None else f"{self.n_features} features"
        return f"Dataset({self.n_points} points, {kind}, {self.n_labels} labels, {self.Y.nnz} label occurrences)"


def _texts(value: Any) -> Texts:
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise DataError("texts must be a sequence of strings")
    return Texts.of(value)


def _ids(value: Any) -> Texts:
    if isinstance(value, Texts):
        return value
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise DataError("ids must be a sequence of strings")
    ids = list(value)
    for row, item in enumerate(ids):
        if isinstance(item, (bool, np.bool_)) or not isinstance(item, (str, int, np.integer)):
            raise DataError(f"the id of point {row} is {item!r:.40}, but must be a string or a whole number")
    return Texts.of(str(item) for item in ids)


def _weights(value: Any, n_points: int) -> NDArray[np.float32] | None:
    if value is None:
        return None
    try:
        weights = np.asarray(value, dtype=np.float32)
    except (TypeError, ValueError) as error:
        raise DataError("weights must be one number per point") from error
    if weights.shape != (n_points,):
        raise DataError(f"weights have shape {weights.shape}, but there are {n_points} points")
    wrong = np.flatnonzero(~(np.isfinite(weights) & (weights > 0)))
    if wrong.size:
        raise DataError(f"the weight of point {wrong[0]} is {weights[wrong[0]]:g}, but must be a number greater than 0")
    return weights


def _parents(value: Any, names: list[str] | None) -> dict[str, list[str]] | None:
    if value is None:
        return None
    if names is None:
        raise DataError("label_parents refer to labels by name, so label_names are needed too")
    if not isinstance(value, Mapping):
        raise DataError("label_parents must map each label name to a list of its parents' names")
    parents = {child: list(above) for child, above in value.items() if not isinstance(above, str)}
    strings = [name for child, above in parents.items() for name in (child, *above)]
    if len(parents) != len(value) or not all(isinstance(name, str) for name in strings):
        raise DataError("label_parents must map each label name to a list of its parents' names")
    return parents
