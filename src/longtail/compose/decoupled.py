"""Two models side by side: one for frequent labels, one for rare labels with altered copies of their points."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from longtail.compose.augment import Alteration, with_altered_copies
from longtail.compose.candidates import best_of
from longtail.core.estimator import Estimator
from longtail.core.predictions import Predictions, empty_top
from longtail.core.run import Run
from longtail.core.unseen import rows_of
from longtail.errors import DataError, ParameterError

_NONE = "none of these"  # as words, for models that read label names


@dataclass(frozen=True, eq=False)
class Decoupling:
    """A recipe for training one base for head labels and one for tail labels ("Improving tail label prediction for
    extreme multi-label learning", section 3.3).

    Each base is trained on the points that have one of its labels, for the tail with altered copies of them. With
    `others` it is trained on all other points too; these get an extra label, "none of these", which is never predicted.
    Without it trees would leave them out, and not learn when there is nothing to predict.

    Parameters
    ----------
    new_base : callable
        Returns an unfitted base.
    head : ndarray of int32
        Ids of the head labels.
    tail : ndarray of int32
        Ids of the tail labels.
    n_aug : int
        Altered copies per point with a tail label.
    alteration : Alteration
        How copies differ from their points.
    others : bool
        Also train each base on points without any of its labels.
    """

    new_base: Callable[[], Estimator]
    head: NDArray[np.int32]
    tail: NDArray[np.int32]
    n_aug: int
    alteration: Alteration
    others: bool

    def fit(self, X: Any, Y: sparse.csr_matrix, *, run: Run, label_names: list[str] | None = None) -> Decoupled:
        """Train both bases.

        Parameters
        ----------
        X : csr_matrix or sequence of str
            Points.
        Y : csr_matrix
            Observed labels.
        run : Run
            Where to show progress and keep finished parts.
        label_names : list of str, optional
            Names of the labels.

        Returns
        -------
        Decoupled
        """
        by_label = Y.tocsc()

        def one(part: tuple[str, NDArray[np.int32], int]) -> Estimator:
            name, labels, n_aug = part
            own = by_label[:, labels].tocsr()
            carries = np.diff(own.indptr) > 0
            if not carries.any():
                raise DataError(f"no point has any of the {labels.size} {name} labels; choose another tau")
            carriers = np.flatnonzero(carries)
            points, carried = (X, _with_none(own, carries)) if self.others else (rows_of(X, carriers), own[carriers])
            if n_aug:
                copied = carriers if self.others else np.arange(carriers.size)
                points = with_altered_copies(points, copied, n_aug, self.alteration)
                carried = sparse.csr_matrix(sparse.vstack([carried, *[carried[copied]] * n_aug], format="csr"))
            names = names_of(labels, label_names, carried.shape[1])
            with self._naming_the_part(name, labels.size):
                return self.new_base().fit(points, carried, label_names=names, run=run.part(name))

        models = run.each(one, [("head", self.head, 0), ("tail", self.tail, self.n_aug)])
        return Decoupled(models, self.head, self.tail)

    @contextmanager
    def _naming_the_part(self, name: str, n_labels: int) -> Iterator[None]:
        """Say in errors which of the two models failed: its numbers are about a part of the data."""
        try:
            yield
        except (DataError, ParameterError) as error:
            total = self.head.size + self.tail.size
            raise type(error)(f"the model for the {n_labels} {name} labels out of {total}: {error}") from error


@dataclass(frozen=True, eq=False)
class Decoupled:
    """Two fitted models, one for the head labels and one for the tail labels.

    Parameters
    ----------
    models : list of Estimator
        Model of the head, model of the tail.
    head : ndarray of int32
        Ids of the head labels.
    tail : ndarray of int32
        Ids of the tail labels.
    """

    models: list[Estimator]
    head: NDArray[np.int32]
    tail: NDArray[np.int32]
    score_groups_ = None  # the column tells which model a score comes from

    def predict(self, X: Any, *, k: int) -> Predictions:
        """Return the k best head labels and, in the next k columns, the k best tail labels, with their scores."""
        found = []
        for labels, model in zip((self.head, self.tail), self.models, strict=True):
            best = model.predict(X, k=min(k + 1, model.n_labels_))  # one more, as "none of these" may be among them
            none = best.labels >= labels.size
            ids, scores = empty_top(len(best), k + 1)
            ids[:, : best.k] = np.where(none, -1, np.append(labels, -1)[np.where(none, -1, best.labels)])
            scores[:, : best.k] = np.where(none, -np.inf, best.scores)
            found.append(best_of(ids, scores, k))
        return Predictions(np.hstack([p.labels for p in found]), np.hstack([p.scores for p in found]))


def names_of(labels: NDArray[np.int32], names: list[str] | None, n_labels: int) -> list[str] | None:
    """Return the names of some labels; if `n_labels` is one more, add an unused name for "none of these"."""
    if names is None:
        return None
    none, taken, number = _NONE, set(names), 2
    while none in taken:
        none, number = f"{_NONE}, {number}", number + 1
    return [*(names[label] for label in labels), *[none] * (n_labels - labels.size)]


def _with_none(Y: sparse.csr_matrix, carries: NDArray[np.bool_]) -> sparse.csr_matrix:
    """Return Y with an extra label for points that have no other, if there are any."""
    if carries.all():
        return Y
    none = sparse.csr_matrix((~carries).astype(np.float32)[:, None])
    return sparse.csr_matrix(sparse.hstack([Y, none], format="csr"))
