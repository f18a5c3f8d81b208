"""Predictions held against the true labels: the one object that every metric is arithmetic on."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from longtail.core.estimator import check_whole
from longtail.core.inputs import check_labels
from longtail.core.predictions import Predictions
from longtail.errors import DataError, ParameterError
from longtail.metrics import kernels

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Matches:
    """Which predicted labels are true; make it with `Matches.of(predictions, Y)`.

    n points, K predictions a point. `labels` (n, K) int32, best first, -1 pads; their order is taken as it is, so ties
    are those of `Predictions` (the lower label id first). `hits` (n, K) bool. `truth` (n, L) CSR indicator.
    `inverse_propensities` (at least L,) 1/p_l >= 1, or None where no propensity-scored metric is asked for.
    """

    labels: NDArray[np.int32]
    hits: NDArray[np.bool_]
    truth: sparse.csr_matrix
    inverse_propensities: Floats | None = None

    @classmethod
    def of(cls, predictions: Predictions, Y: Any, *, inverse_propensities: ArrayLike | None = None) -> Matches:
        """Match predictions with the labels Y of the same points.

        Y may have labels that are never predicted; a predicted label beyond the columns of Y is a miss.
        """
        check_predictions(predictions)
        truth = check_labels(Y)
        if len(predictions) != truth.shape[0]:
            raise DataError(f"there are predictions for {len(predictions)} points, but Y has {truth.shape[0]}")
        if len(predictions) == 0:
            raise DataError("there is nothing to evaluate: no points")
        labels = predictions.labels
        hits = np.zeros(labels.shape, dtype=np.bool_)
        width = max(truth.shape[1], int(labels.max(initial=-1)) + 1)
        twice = kernels.find_hits(truth.indptr.astype(np.int64), truth.indices, labels, width, hits)
        if twice >= 0:
            raise DataError(f"the predictions of point {twice} name the same label twice; each label may occur once")
        inverse = None if inverse_propensities is None else _check_inverse(inverse_propensities, truth.shape[1])
        return cls(labels, hits, truth, inverse)

    @property
    def n_points(self) -> int:
        return int(self.labels.shape[0])

    @cached_property
    def n_labels(self) -> int:
        """Labels that exist: those of Y, and those that are predicted beyond them."""
        return max(int(self.truth.shape[1]), int(self.labels.max(initial=-1)) + 1)

    @cached_property
    def n_relevant(self) -> Ints:
        """|y_i|, the number of true labels of each point."""
        return np.diff(self.truth.indptr).astype(np.int64)

    def column(self, k: int) -> int:
        """The last column of the top k.

        A row that ends early (-1) counts as misses from there on. Predictions that were cut before k are an error
        instead: the value would be too low without anyone noticing. Unless all labels were ranked: nothing was cut.
        """
        k = check_cutoff(k)
        width = self.labels.shape[1]
        if k > width and width < self.n_labels:
            raise ParameterError(f"a metric at {k} needs {k} predictions a point, but these hold {width}")
        return min(k, width) - 1

    def hits_at(self, k: int) -> Ints:
        """True labels among the first k, for each point."""
        return self._hits[:, self.column(k)]

    def dcg_at(self, k: int) -> Floats:
        """Sum over the hits among the first k of 1/log2(rank + 1)."""
        return self._dcg[:, self.column(k)]

    def ideal_dcg_at(self, k: int) -> Floats:
        """The largest DCG that any ranking could reach: sum_{r <= min(k, |y|)} 1/log2(r + 1); 0 without labels."""
        table = np.concatenate([[0.0], np.cumsum(discounts(k))])
        ideal: Floats = table[np.minimum(k, self.n_relevant)]
        return ideal

    def gain_at(self, k: int) -> Floats:
        """Sum over the hits among the first k of 1/p_l."""
        return self._gain[:, self.column(k)]

    def discounted_gain_at(self, k: int) -> Floats:
        """Sum over the hits among the first k of 1/(p_l log2(rank + 1))."""
        return self._discounted_gain[:, self.column(k)]

    def best_gain_at(self, k: int) -> Floats:
        """`gain_at` of the best ranking: the true labels by falling 1/p_l."""
        return self._best_gain[:, self.column(k)]

    def best_discounted_gain_at(self, k: int) -> Floats:
        """`discounted_gain_at` of the best ranking: the true labels by falling 1/p_l."""
        return self._best_discounted_gain[:, self.column(k)]

    @property
    def inverse(self) -> Floats:
        """1/p_l of each label, or an error that says they are needed."""
        if self.inverse_propensities is None:
            raise ParameterError(
                "the metric needs inverse_propensities, e.g. from PropensityModel().inverse(counts, n_points)"
            )
        return self.inverse_propensities

    @property
    def largest_inverse(self) -> float:
        """max_l 1/p_l: what a propensity-scored term can at most be."""
        return float(self.inverse.max(initial=1.0))

    def of_hits(self, values: Floats) -> Floats:
        """`values[label]` where a prediction is true, 0 elsewhere; (n, K)."""
        result = np.zeros(self.hits.shape)
        result[self.hits] = values[self.labels[self.hits]]
        return result

    # Running sums along the ranking: the metric at every k is then one column.
    @cached_property
    def _hits(self) -> Ints:
        return np.cumsum(self.hits, axis=1, dtype=np.int64)

    @cached_property
    def _dcg(self) -> Floats:
        return np.cumsum(self.hits * discounts(self.hits.shape[1]), axis=1)

    @cached_property
    def _hit_weights(self) -> Floats:
        return self.of_hits(self.inverse)

    @cached_property
    def _gain(self) -> Floats:
        return np.cumsum(self._hit_weights, axis=1)

    @cached_property
    def _discounted_gain(self) -> Floats:
        return np.cumsum(self._hit_weights * discounts(self.hits.shape[1]), axis=1)

    @cached_property
    def _best_weights(self) -> Floats:
        best = np.zeros(self.hits.shape)
        scratch = np.full(self.hits.shape, -1, dtype=np.int32)
        indptr = self.truth.indptr.astype(np.int64)
        kernels.largest_weights(indptr, self.truth.indices, self.inverse, scratch, best)
        return best

    @cached_property
    def _best_gain(self) -> Floats:
        return np.cumsum(self._best_weights, axis=1)

    @cached_property
    def _best_discounted_gain(self) -> Floats:
        return np.cumsum(self._best_weights * discounts(self.hits.shape[1]), axis=1)


def check_predictions(predictions: Any) -> None:
    if not isinstance(predictions, Predictions):
        raise DataError(
            f"the predictions are {type(predictions).__name__}, but must be Predictions; make them of an array of "
            "scores with Predictions.from_dense(scores, k), or of ranked labels with Predictions(labels, scores)"
        )


def check_cutoff(k: Any) -> int:
    """k as an int greater than 0."""
    check_whole("k", k, 1)
    return int(k)


def discounts(k: int) -> Floats:
    """1/log2(rank + 1) for the ranks 1..k."""
    return 1.0 / np.log2(np.arange(2, k + 2, dtype=np.float64))


def _check_inverse(inverse_propensities: ArrayLike, n_labels: int) -> Floats:
    inverse = np.ascontiguousarray(inverse_propensities, dtype=np.float64)
    if inverse.ndim != 1:
        raise ParameterError(f"inverse_propensities must be one number a label; got an array of shape {inverse.shape}")
    if inverse.size < n_labels:
        raise ParameterError(
            f"there are {inverse.size} inverse propensities for the {n_labels} labels of Y; "
            "labels that training never saw have count 0 and need theirs too"
        )
    if not np.isfinite(inverse).all() or (inverse < 1).any():
        label = int(np.flatnonzero(~(np.isfinite(inverse) & (inverse >= 1)))[0])
        raise ParameterError(f"the inverse propensity of label {label} is {inverse[label]}; it must be finite and >= 1")
    return inverse
