"""The contract that every model keeps: scikit-learn's habits, ranked predictions, a directory instead of a pickle."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator

from longtail.core.fingerprint import data_fingerprint
from longtail.core.inputs import (
    check_features,
    check_k,
    check_label_names,
    check_labels,
    check_lengths,
    check_texts,
    n_rows,
)
from longtail.core.interrupts import plain_interrupts
from longtail.core.predictions import Predictions
from longtail.core.run import Run
from longtail.core.state import State
from longtail.errors import DataError, NotFittedError


class Estimator(BaseEstimator, ABC):
    """Base of every model.

    A subclass has a keyword-only constructor that only stores its arguments, and implements `_check_parameters`,
    `_fit`, `_predict`, `_get_state` and `_set_state`; inputs reach these checked and in one shape. Fitted attributes:

    `n_labels_`, `label_counts_` (training points of each label), `n_points_`, `n_features_in_` (feature models),
    `label_names_` (or None), `fingerprint_` (of the training data).
    """

    input_kind: ClassVar[Literal["features", "text"]] = "features"

    n_labels_: int
    n_points_: int
    n_features_in_: int
    label_counts_: NDArray[np.int64]
    label_names_: list[str] | None
    fingerprint_: str

    def fit(self, X: Any, Y: Any, *, label_names: Sequence[str] | None = None, run: Run | None = None) -> Self:
        """Train on points X and their labels Y.

        X: CSR or dense features, or texts, as `input_kind` says. Y: a 0/1 matrix or one list of label ids a point.
        label_names: distinct strings, kept with the model and written into its directory.
        run: progress and checkpoint (optional).
        """
        self._check_parameters()
        X = self._check_X(X)
        n_points = n_rows(X)
        Y = check_labels(Y, n_points=n_points)
        if n_points == 0 or Y.shape[1] == 0:
            raise DataError(f"there is nothing to learn from: {n_points} points, {Y.shape[1]} labels")
        if Y.nnz == 0:
            raise DataError("there is nothing to learn from: no point has a label")
        names = check_label_names(label_names, Y.shape[1])
        self.n_points_, self.n_labels_ = n_points, Y.shape[1]
        if self.input_kind == "features":
            self.n_features_in_ = X.shape[1]
        self.label_counts_ = np.bincount(Y.indices, minlength=Y.shape[1]).astype(np.int64)
        self.label_names_ = names
        self.fingerprint_ = data_fingerprint(X, Y)
        try:
            with plain_interrupts():
                self._fit(X, Y, run or Run())
        except BaseException:
            del self.n_labels_  # a fit that failed or was interrupted must not pass for a fitted model
            raise
        return self

    def predict(self, X: Any, *, k: int = 5) -> Predictions:
        """The k best labels of each point, best first."""
        self._check_fitted()
        self._check_parameters()  # some may be set anew after `fit`: beam, exponent, batch_size
        k = check_k(k, self.n_labels_)
        with plain_interrupts():
            return self._predict(self._check_X(X, fitted=True), k)

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write the model as a directory (manifest.json and safetensors); `longtail.load_model` reads it back."""
        from longtail.core.model import save_model

        save_model(self, path, overwrite=overwrite)

    def _check_X(self, X: Any, *, fitted: bool = False) -> Any:
        if self.input_kind == "features":
            return check_lengths(check_features(X, n_features=self.n_features_in_ if fitted else None))
        return check_texts(X)

    def _check_fitted(self) -> None:
        if not hasattr(self, "n_labels_"):
            raise NotFittedError(f"this {type(self).__name__} is not fitted yet; call fit(X, Y) first")

    def _check_parameters(self) -> None:
        """Raise ParameterError for values that cannot be used; called by `fit` and `predict`, before any work."""

    @abstractmethod
    def _fit(self, X: Any, Y: sparse.csr_matrix, run: Run) -> None: ...

    @abstractmethod
    def _predict(self, X: Any, k: int) -> Predictions: ...

    @abstractmethod
    def _get_state(self) -> State:
        """What `_fit` learned."""

    @abstractmethod
    def _set_state(self, state: State) -> None:
        """The inverse of `_get_state`; arrays may be mapped and read-only."""
