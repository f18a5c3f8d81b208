"""The weights of one-vs-rest classifiers in the form in which they are kept, saved and read by prediction.

By feature: row f lists the classifiers that feature f has a weight for. A weight takes 2 bytes (float16) or 4, the
number of its classifier 2 bytes (up to 65,536 classifiers) or 4. Labels with the same classifier share it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from longtail.core.check_arrays import check_starts, check_within
from longtail.core.predictions import PAD_SCORE
from longtail.core.state import State
from longtail.core.workspace import Workspace

NO_CLASSIFIER = -1


@dataclass(frozen=True, eq=False)
class Weights:
    """Classifiers by feature, and which classifier each label has.

    Parameters
    ----------
    ptr : (D + 1,) array of int64
        Where the entries of each feature begin.
    classifiers : (nnz,) array of uint16 or uint32
        Classifiers that a feature has a weight for, rising.
    values : (nnz,) array of float16 or float32
        The weights.
    intercepts : (C,) array of float32
        One intercept per classifier.
    of_label : (L,) array of int32
        Classifier of each label; -1 for labels without training points, which are never predicted.
    """

    ptr: NDArray[np.int64]
    classifiers: NDArray[np.unsignedinteger]
    values: NDArray[np.floating]
    intercepts: NDArray[np.float32]
    of_label: NDArray[np.int32]

    @classmethod
    def of_labels(
        cls,
        ptr: NDArray[np.integer],
        labels: NDArray[np.integer],
        values: NDArray[np.floating],
        intercepts: NDArray[np.floating],
    ) -> Weights:
        """Return one classifier per label; an intercept of -inf marks a label without training points."""
        trained = ~np.isneginf(intercepts)
        return cls(
            ptr.astype(np.int64, copy=False),
            labels.astype(id_type(intercepts.size), copy=False),
            values,
            np.where(trained, intercepts, 0).astype(np.float32),
            np.where(trained, np.arange(trained.size), NO_CLASSIFIER).astype(np.int32),
        )

    @classmethod
    def of_rows(
        cls,
        rows: list[sparse.csr_matrix],
        labels: Sequence[NDArray[np.intp]],
        intercepts: NDArray[np.float32],
        same_as: NDArray[np.intp],
        n_features: int,
        dtype: str,
    ) -> Weights:
        """Put classifiers together that were trained group by group; empties `rows`, so that little is held twice.

        Parameters
        ----------
        rows : list of csr_matrix
            Per group, one row of weights per label.
        labels : sequence of arrays of label ids
            Labels of each group.
        intercepts : (L,) array of float32
            Intercepts of the labels that were trained; -inf for labels without training points.
        same_as : (L,) array of int
            The label whose classifier each label has.
        n_features : int
            Number of features.
        dtype : {"float16", "float32"}
            Type of the weights; float32 is taken, too, where a weight exceeds the range of float16.
        """
        trained = np.unique(same_as[~np.isneginf(intercepts[same_as])])  # classifiers are in the order of their labels
        number = numbered(trained, same_as.size)
        largest = max((float(np.abs(part.data).max(initial=0)) for part in rows), default=0.0)
        kind = dtype if largest <= float(np.finfo(np.float16).max) else "float32"
        by_feature = rows_in_order(rows, [number[group] for group in labels], trained.size, n_features).tocsc()
        return cls(
            by_feature.indptr.astype(np.int64),
            by_feature.indices.astype(id_type(trained.size)),
            by_feature.data.astype(kind),
            intercepts[trained],
            number[same_as],
        )

    def kept(self, workspace: Workspace) -> Weights:
        """Return the same classifiers, in files where there is a folder for them."""
        return Weights(*(workspace.keep(getattr(self, name)) for name in self.__dataclass_fields__))

    @property
    def n_labels(self) -> int:
        return int(self.of_label.size)

    def label_intercepts(self) -> NDArray[np.float32]:
        """Return the intercept of each label; -inf for labels without training points."""
        if not self.intercepts.size:
            return np.full(self.n_labels, PAD_SCORE, np.float32)
        return np.where(self.of_label >= 0, self.intercepts[self.of_label], np.float32(PAD_SCORE))

    def of_features(self, label: int, features: NDArray[np.integer]) -> NDArray[np.float64]:
        """Return the weights that the classifier of a label has for these features; 0 where it has none."""
        found, own = np.zeros(features.size), self.classifiers.dtype.type(self.of_label[label])
        classifiers = np.asarray(self.classifiers)  # slices of a mapped array cost more than the search in them
        starts, ends = self.ptr[features].tolist(), self.ptr[features + 1].tolist()
        for i, (first, end) in enumerate(zip(starts, ends, strict=True)):
            at = first + int(classifiers[first:end].searchsorted(own))
            if at < end and classifiers[at] == own:
                found[i] = self.values[at]
        return found

    def to_csr(self) -> sparse.csr_matrix:
        """Return the weights as (features, labels) in float32."""
        shape = (self.ptr.size - 1, self.intercepts.size)
        own = sparse.csr_matrix((self.values.astype(np.float32), self.classifiers.astype(np.int32), self.ptr), shape)
        if np.array_equal(self.of_label, np.arange(self.intercepts.size)):
            return own
        trained = np.flatnonzero(self.of_label >= 0)
        chosen = own.tocsc()[:, self.of_label[trained]]
        counts = np.zeros(self.n_labels + 1, np.int64)
        counts[trained + 1] = np.diff(chosen.indptr)
        spread = (chosen.data, chosen.indices, np.cumsum(counts))
        return sparse.csc_matrix(spread, shape=(shape[0], self.n_labels)).tocsr()

    def to_state(self) -> State:
        return State(arrays={name: getattr(self, name) for name in self.__dataclass_fields__})

    @classmethod
    def from_state(cls, state: State, n_features: int, n_labels: int) -> Weights:
        """Return weights that `to_state` or an earlier version saved; `check_numbers` must follow before their use."""
        earlier = "weights.data" in state.arrays  # one classifier per label, in CSR form
        name, ids, data = (
            ("weights.indptr", "weights.indices", "weights.data") if earlier else ("ptr", "classifiers", "values")
        )
        values = state.array(data, (np.float16, np.float32), (None,))
        classifiers = state.array(ids, (np.uint16, np.uint32, *(np.int32,) * earlier), (values.size,))
        ptr = state.array(name, (np.int64, *(np.int32,) * earlier), (n_features + 1,))
        check_starts(name, ptr, values.size)
        if earlier:
            check_within(ids, classifiers, 0, n_labels)  # before it becomes another type
            return cls.of_labels(ptr, classifiers, values, state.array("intercept", np.float32, (n_labels,)))
        intercepts = state.array("intercepts", np.float32, (None,))
        return cls(ptr, classifiers, values, intercepts, state.array("of_label", np.int32, (n_labels,)))

    def check_numbers(self) -> None:
        """Raise ModelError unless every number that prediction indexes by is within its array."""
        check_within("classifiers", self.classifiers, 0, self.intercepts.size)
        check_within("of_label", self.of_label, NO_CLASSIFIER, self.intercepts.size)


def rows_in_order(
    parts: list[sparse.csr_matrix], order: Sequence[NDArray[np.integer]], n_rows: int, width: int
) -> sparse.csr_matrix:
    """Join parts of a matrix; `order` has the number of each of their rows, and rows that no part has are empty.

    Empties `parts` on the way, so that little is in memory twice.
    """
    indptr = np.zeros(n_rows + 1, np.int64)
    for numbers, part in zip(order, parts, strict=True):
        indptr[numbers + 1] = np.diff(part.indptr)
    np.cumsum(indptr, out=indptr)
    indices, data = np.empty(indptr[-1], np.int32), np.empty(indptr[-1], np.float32)
    for numbers in reversed(order):
        part = parts.pop()
        for row, number in enumerate(numbers):
            here, there = slice(indptr[number], indptr[number + 1]), slice(part.indptr[row], part.indptr[row + 1])
            indices[here], data[here] = part.indices[there], part.data[there]
    return sparse.csr_matrix((data, indices, indptr), shape=(n_rows, width))


def numbered(trained: NDArray[np.intp], n_labels: int) -> NDArray[np.int32]:
    """Return the number of each label's classifier; `trained` are the labels that have one, rising."""
    number = np.full(n_labels, NO_CLASSIFIER, np.int32)
    number[trained] = np.arange(trained.size)
    return number


def id_type(n_classifiers: int) -> Any:
    """Return the type of the numbers of so many classifiers."""
    return np.uint16 if n_classifiers <= 2**16 else np.uint32


def raw(values: NDArray[np.floating]) -> NDArray[Any]:
    """Return float16 numbers as the uint16 that `as_float` reads; float32 numbers as they are."""
    return values.view(np.uint16) if values.dtype == np.float16 else values
