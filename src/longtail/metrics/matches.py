"""Predictions matched with the true labels: the object that all metrics are computed from."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from longtail.core.inputs import check_labels
from longtail.core.parameters import check_whole
from longtail.core.predictions import Predictions
from longtail.errors import DataError, ParameterError
from longtail.metrics import kernels

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Matches:
    """Predictions matched with true labels; make it with `Matches.of(predictions, Y)`.

    Attributes
    ----------
    labels : (n, K) array of int32
        K predicted labels per point, best first, padded with -1. The order is that of `Predictions` (ties: lower label
        id first).
    hits : (n, K) array of bool
        Which of them are true.
    truth : (n, L) csr_matrix
        True labels.
    inverse_propensities : array or None
        1/p_l >= 1 for at least L labels; None if no propensity-scored metric is needed.
    """

    labels: NDArray[np.int32]
    hits: NDArray[np.bool_]
    truth: sparse.csr_matrix
    inverse_propensities: Floats | None = None

    @classmethod
    def of(cls, predictions: Predictions, Y: Any, *, inverse_propensities: ArrayLike | None = None) -> Matches:
        """Match predictions with the labels of the same points.

        Parameters
        ----------
        predictions : Predictions
            Ranked labels of n points.
        Y : (n, L) sparse or dense 0/1 matrix, or one list of label ids per point
            True labels. A predicted label beyond the columns of `Y` is a miss.
        inverse_propensities : array_like, optional
            1/p_l per label of `Y`, e.g. from `PropensityModel.inverse`; needed for propensity-scored metrics.

        Returns
        -------
        Matches

        Raises
        ------
        DataError
            If the numbers of points differ or are 0, or a point has a label predicted twice.
        """
        check_predictions(predictions)
        truth = check_labels(Y)
        if len(predictions) != truth.shape[0]:
            raise DataError(f"there are predictions for {len(predictions)} points, but Y has {truth.shape[0]}")
        if len(predictions) == 0:
            raise DataError("nothing to evaluate: there are no points")
        labels = predictions.labels
        hits = np.zeros(labels.shape, dtype=np.bool_)
        width = max(truth.shape[1], int(labels.max(initial=-1)) + 1)
        twice = kernels.find_hits(truth.indptr.astype(np.int64), truth.indices, labels, width, hits)
        if twice >= 0:
            raise DataError(f"point {twice} has the same label predicted twice; each label may occur once per point")
        inverse = None if inverse_propensities is None else _check_inverse(inverse_propensities, truth.shape[1])
        return cls(labels, hits, truth, inverse)

    @property
    def n_points(self) -> int:
        """Number of points, n."""
        return int(self.labels.shape[0])

    @cached_property
    def n_labels(self) -> int:
        """Number of labels: those of Y, and those predicted beyond them."""
        return max(int(self.truth.shape[1]), int(self.labels.max(initial=-1)) + 1)

    @cached_property
    def n_relevant(self) -> Ints:
        """Number of true labels per point, |y_i|."""
        return np.diff(self.truth.indptr).astype(np.int64)

    def column(self, k: int) -> int:
        """Return the last column of the top k.

        In a row that ends early (-1), the missing predictions count as misses. Predictions with fewer than k columns
        are an error, because the metric would be too low unnoticed, unless they rank all labels.
        """
        k = check_cutoff(k)
        width = self.labels.shape[1]
        if k > width and width < self.n_labels:
            raise ParameterError(f"a metric at {k} needs {k} predictions per point, but there are {width}")
        return min(k, width) - 1

    def hits_at(self, k: int) -> Ints:
        """Return the number of true labels among the top k, per point."""
        return self._hits[:, self.column(k)]

    def dcg_at(self, k: int) -> Floats:
        """Return the sum over the hits among the top k of 1/log2(rank + 1), per point."""
        return self._dcg[:, self.column(k)]

    def ideal_dcg_at(self, k: int) -> Floats:
        """Return the DCG of a perfect ranking: sum_{r <= min(k, |y|)} 1/log2(r + 1), per point; 0 without labels."""
        table = np.concatenate([[0.0], np.cumsum(discounts(k))])
        ideal: Floats = table[np.minimum(k, self.n_relevant)]
        return ideal

    def gain_at(self, k: int) -> Floats:
        """Return the sum over the hits among the top k of 1/p_l, per point."""
        return self._gain[:, self.column(k)]

    def discounted_gain_at(self, k: int) -> Floats:
        """Return the sum over the hits among the top k of 1/(p_l log2(rank + 1)), per point."""
        return self._discounted_gain[:, self.column(k)]

    def best_gain_at(self, k: int) -> Floats:
        """Return `gain_at` of the best ranking: the true labels by decreasing 1/p_l."""
        return self._best_gain[:, self.column(k)]

    def best_discounted_gain_at(self, k: int) -> Floats:
        """Return `discounted_gain_at` of the best ranking: the true labels by decreasing 1/p_l."""
        return self._best_discounted_gain[:, self.column(k)]

    @property
    def inverse(self) -> Floats:
        """Return 1/p_l per label, or raise ParameterError if they were not given."""
        if self.inverse_propensities is None:
            raise ParameterError(
                "the metric needs inverse_propensities, e.g. from PropensityModel().inverse(counts, n_points)"
            )
        return self.inverse_propensities

    @property
    def largest_inverse(self) -> float:
        """Largest inverse propensity, max_l 1/p_l: the upper bound of a propensity-scored term."""
        return float(self.inverse.max(initial=1.0))

    def of_hits(self, values: Floats) -> Floats:
        """Return `values[label]` where a prediction is true, 0 elsewhere; (n, K)."""
        result = np.zeros(self.hits.shape)
        result[self.hits] = values[self.labels[self.hits]]
        return result

    # Cumulative sums along the ranking: the metric at k is then one column.
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
    """Raise DataError unless these are `Predictions`."""
    if not isinstance(predictions, Predictions):
        raise DataError(
            f"predictions is {type(predictions).__name__}, but must be Predictions; make them from an array of scores "
            "with Predictions.from_dense(scores, k), or from ranked labels with Predictions(labels, scores)"
        )


def check_cutoff(k: Any) -> int:
    """Return k as an int, or raise ParameterError unless it is a whole number from 1 up."""
    check_whole("k", k, 1)
    return int(k)


def discounts(k: int) -> Floats:
    """Return 1/log2(rank + 1) for the ranks 1..k."""
    return 1.0 / np.log2(np.arange(2, k + 2, dtype=np.float64))


def _check_inverse(inverse_propensities: ArrayLike, n_labels: int) -> Floats:
    inverse = np.ascontiguousarray(inverse_propensities, dtype=np.float64)
    if inverse.ndim != 1:
        raise ParameterError(
            f"inverse_propensities must be one number per label; got an array of shape {inverse.shape}"
        )
    if inverse.size < n_labels:
        raise ParameterError(
            f"there are {inverse.size} inverse propensities for the {n_labels} labels of Y; "
            "labels without training points (count 0) need one too"
        )
    if not np.isfinite(inverse).all() or (inverse < 1).any():
        label = int(np.flatnonzero(~(np.isfinite(inverse) & (inverse >= 1)))[0])
        raise ParameterError(
            f"the inverse propensity of label {label} is {inverse[label]}, but must be finite and >= 1"
        )
    return inverse
