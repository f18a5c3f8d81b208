"""Evidence for a label: the training points with that label which are most like a point."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from longtail.core.estimator import Estimator
from longtail.core.explanation import Explanation, Neighbour
from longtail.core.inputs import check_features, check_labels, check_texts, n_rows, one_point
from longtail.core.parameters import check_whole
from longtail.errors import DataError
from longtail.features.pipeline import TextPipeline, UnitRows
from longtail.features.scaling import unit_rows
from longtail.features.text import TextFeatures

_KEPT = 256  # labels whose features are kept for the next question
_TEXT = 300  # characters of a text that are shown


class Evidence:
    """The training points with a label that are most like a given point, by the cosine of their features.

    A model does not contain its training points; here they are given again. Features are computed when a label is first
    asked for, and only those of its points, so nothing grows with the data but the texts themselves.

    Parameters
    ----------
    model : Estimator
        Fitted model; texts are compared by its own TF-IDF features, or by new ones if it has none (text networks).
    X : sequence of str or matrix
        Points of the kind that the model reads, e.g. its training data.
    Y : sparse matrix, array or list of lists
        Their labels, in the ids of the model.
    ids : sequence of str or None, default None
        Identifiers of the points; None for their positions.
    sample : int, default 500
        Points per label that are compared, at most; of more, evenly spaced ones.
    """

    def __init__(
        self, model: Estimator, X: Any, Y: Any, *, ids: Sequence[str] | None = None, sample: int = 500
    ) -> None:
        model.check_fitted()
        check_whole("sample", sample, 1)
        self.kind, self.sample, self.ids = model.input_kind, int(sample), ids
        self._texts: Sequence[str] | None = check_texts(X) if self.kind == "text" else None
        self._X = None if self.kind == "text" else check_features(X, n_features=model.n_features_in_)
        n_points = n_rows(X)
        Y = check_labels(Y, n_points=n_points)
        if Y.shape[1] > model.n_labels_:
            Y = Y[:, : model.n_labels_]
        if ids is not None and len(ids) != n_points:
            raise DataError(f"there are {n_points} points, but {len(ids)} ids")
        self._by_label = sparse.csc_matrix(Y)
        self._features = _text_features(model) if self.kind == "text" else None
        self._seen: OrderedDict[int, tuple[NDArray[np.intp], sparse.csr_matrix]] = OrderedDict()

    def of(self, point: Any, label: int, n: int = 3) -> list[Neighbour]:
        """Return the n most similar points with a label.

        Parameters
        ----------
        point : str, sparse matrix or array
            One point.
        label : int
            Id of the label.
        n : int, default 3
            Number of points.

        Returns
        -------
        list of Neighbour
            The most similar first; empty if no point has the label.
        """
        check_whole("n", n, 1)
        row = one_point(point, self.kind)
        if label >= self._by_label.shape[1]:
            return []
        rows, candidates = self._points_with(label)
        if not rows.size:
            return []
        x = unit_rows(self._vectors(row) if self.kind == "text" else check_features(row))
        similarity = np.asarray((candidates @ x.T).todense()).ravel()
        best = np.argsort(-similarity, kind="stable")[:n]
        return [self._neighbour(int(rows[i]), float(similarity[i])) for i in best]

    def added_to(self, found: Explanation, point: Any, n: int = 3) -> Explanation:
        """Return an explanation of this point with the n most similar points as its evidence."""
        return replace(found, evidence=self.of(point, found.label, n))

    def _neighbour(self, row: int, similarity: float) -> Neighbour:
        text = "" if self._texts is None else self._texts[row][:_TEXT]
        return Neighbour(row, str(row) if self.ids is None else self.ids[row], round(similarity, 6), text)

    def _points_with(self, label: int) -> tuple[NDArray[np.intp], sparse.csr_matrix]:
        if label in self._seen:
            self._seen.move_to_end(label)
            return self._seen[label]
        rows = self._by_label.indices[self._by_label.indptr[label] : self._by_label.indptr[label + 1]]
        if rows.size > self.sample:
            rows = rows[np.linspace(0, rows.size - 1, self.sample).astype(np.intp)]
        own = self._X[rows] if self._X is not None else self._vectors([self._text(row) for row in rows.tolist()])
        self._seen[label] = rows, unit_rows(own)
        if len(self._seen) > _KEPT:
            self._seen.popitem(last=False)
        return self._seen[label]

    def _text(self, row: int) -> str:
        assert self._texts is not None
        return self._texts[row]

    def _vectors(self, texts: Sequence[str]) -> sparse.csr_matrix:
        if self._features is None:
            assert self._texts is not None
            self._features = TextFeatures(min_df=1, max_df=1.0).fit(self._texts)
        return self._features.transform(texts)


def _text_features(model: Estimator) -> TextFeatures | None:
    """Return the features of the first text pipeline in a model; None if there is none."""
    if isinstance(model, TextPipeline):
        return model.features_
    for part in getattr(model, "parts_", []):
        if not isinstance(part, UnitRows) and (found := _text_features(part)) is not None:
            return found
    return None
