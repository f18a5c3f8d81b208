"""The classifiers of a model in shards: `Weights` of some labels each, so that a large model is never held as a whole.

Labels are trained in groups. Once enough classifiers are finished they become a shard, which goes to a file where there
is a folder for that (`Run.workspace`), and is mapped from then on. A shard is complete in itself: it knows all labels,
and those of other shards have no classifier in it. Prediction ranks the labels of each shard and keeps the best.

Up to 65,536 classifiers, whose numbers take two bytes, belong to a shard, and a bounded number of weights. Most models
are a single shard.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from longtail.core.predictions import PAD_SCORE, Predictions
from longtail.core.state import State
from longtail.core.workspace import Workspace
from longtail.errors import ModelError
from longtail.linear.scorer import LinearScorer
from longtail.linear.weights import Weights

_MOST_CLASSIFIERS = 1 << 16
_MOST_WEIGHTS = 1 << 25  # 128 MB as float16 with two-byte numbers; three times 8 bytes each while they are put together
_COUNT = "shards"


class Shards:
    """Classifiers of a model in one or several `Weights`.

    Parameters
    ----------
    parts : sequence of Weights
        Each of them over all labels; a label has a classifier in one of them, or in none.
    """

    def __init__(self, parts: Sequence[Weights]) -> None:
        self.parts = tuple(parts)

    @cached_property
    def scorers(self) -> list[LinearScorer]:
        """What ranks the labels of each shard."""
        return [LinearScorer(part) for part in self.parts]

    def top(self, X: sparse.csr_matrix, k: int, *, n_jobs: int | None = None) -> Predictions:
        """Return the k best labels per row of X; ties go to the lower label id."""
        return merged([scorer.top(X, k, n_jobs=n_jobs) for scorer in self.scorers], k)

    def of(self, label: int) -> Weights:
        """Return the shard that has the classifier of a label."""
        return next((part for part in self.parts if part.of_label[label] >= 0), self.parts[0])

    def label_intercepts(self) -> NDArray[np.float32]:
        """Return the intercept of each label; -inf for labels without training points."""
        found = self.parts[0].label_intercepts()
        for part in self.parts[1:]:
            found = np.maximum(found, part.label_intercepts())
        return found

    def to_csr(self) -> sparse.csr_matrix:
        """Return the weights as (features, labels) in float32."""
        total = self.parts[0].to_csr()
        for part in self.parts[1:]:
            total = total + part.to_csr()  # no label is in two of them
        return total

    def to_state(self) -> State:
        if len(self.parts) == 1:
            return self.parts[0].to_state()
        state = State({_COUNT: len(self.parts)})
        for number, part in enumerate(self.parts):
            state.nest(_name(number), part.to_state())
        return state

    @classmethod
    def from_state(cls, state: State, n_features: int, n_labels: int) -> Shards:
        """Return what `to_state` or an earlier version saved; `check_numbers` must follow before its use."""
        if _COUNT not in state.values:
            return cls([Weights.from_state(state, n_features, n_labels)])
        names = [_name(number) for number in range(state.count(_COUNT, 1))]
        return cls([Weights.from_state(state.part(name), n_features, n_labels) for name in names])

    def check_numbers(self) -> None:
        """Raise ModelError unless all numbers that prediction indexes by are in range and no label is in two shards."""
        for part in self.parts:
            part.check_numbers()
        if len(self.parts) > 1:
            n_shards = np.zeros(self.parts[0].n_labels, np.int64)
            for part in self.parts:
                n_shards += part.of_label >= 0
            if n_shards.max(initial=0) > 1:
                raise ModelError(f"label {int(n_shards.argmax())} has classifiers in several shards")


class ShardBuilder:
    """Collects the classifiers of groups of labels, and makes shards of them as they become many.

    Parameters
    ----------
    same_as : (L,) array of int
        The label whose classifier each label has.
    n_features : int
        Number of features.
    dtype : {"float16", "float32"}
        Type of the weights, where they fit.
    workspace : Workspace
        Where finished shards are.
    """

    def __init__(self, same_as: NDArray[np.intp], n_features: int, dtype: str, workspace: Workspace) -> None:
        self._same_as, self._n_features, self._dtype, self._workspace = same_as, n_features, dtype, workspace
        self._parts: list[Weights] = []
        self._empty()

    def _empty(self) -> None:
        self._rows: list[sparse.csr_matrix] = []
        self._labels: list[NDArray[np.intp]] = []
        self._intercepts = np.full(self._same_as.size, PAD_SCORE, np.float32)
        self._n_labels, self._n_weights = 0, 0

    def add(self, labels: NDArray[np.intp], weights: sparse.csr_matrix, intercepts: NDArray[np.float32]) -> None:
        """Take the classifiers of a group: a row of weights and an intercept per label."""
        too_many = self._n_labels + labels.size > _MOST_CLASSIFIERS or self._n_weights + weights.nnz > _MOST_WEIGHTS
        if self._rows and too_many:
            self._finish()
        self._rows.append(weights)
        self._labels.append(labels)
        self._intercepts[labels] = intercepts
        self._n_labels += labels.size
        self._n_weights += int(weights.nnz)

    def _finish(self) -> None:
        part = Weights.of_rows(self._rows, self._labels, self._intercepts, self._same_as, self._n_features, self._dtype)
        self._parts.append(part.kept(self._workspace))
        self._empty()

    def result(self) -> Shards:
        """Return the shards of all groups."""
        if self._rows or not self._parts:
            self._finish()
        return Shards(self._parts)


def merged(found: Sequence[Predictions], k: int) -> Predictions:
    """Return the k best of several predictions for the same points, which have no label in common."""
    if len(found) == 1:
        return found[0]
    labels, scores = np.hstack([each.labels for each in found]), np.hstack([each.scores for each in found])
    order = np.lexsort((labels, -scores), axis=1)[:, :k]  # padding has the score -inf
    return Predictions(np.take_along_axis(labels, order, axis=1), np.take_along_axis(scores, order, axis=1))


def _name(number: int) -> str:
    return f"shard-{number:05d}"
