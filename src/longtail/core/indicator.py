"""A model whose predictions are a 0/1 matrix, for scikit-learn's own multi-label metrics and tools."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from longtail.core.estimator import Estimator
from longtail.core.wrapper import check_part, new_part


@dataclass(kw_only=True, eq=False, repr=False)
class IndicatorClassifier(ClassifierMixin, BaseEstimator):
    """A longtail model as a scikit-learn classifier: `predict` returns a sparse 0/1 matrix instead of ranked labels.

    For scikit-learn's scorers ("f1_micro", "jaccard_samples", ...), which compare label matrices:
    `cross_val_score(IndicatorClassifier(model=DiSMEC(), threshold=0), X, Y, scoring="f1_micro")`.

    Parameters
    ----------
    model : Estimator or None, default None
        Any longtail estimator; None stands for `DiSMEC`. Its parameters can be set as `model__C`.
    k : int, default 5
        Most labels per point.
    threshold : float or None, default None
        Leave out labels with lower scores; None predicts k labels per point.

    Attributes
    ----------
    model_ : Estimator
        Fitted model.
    classes_ : ndarray
        Names of the columns, or their numbers.
    """

    model: Estimator | None = None
    k: int = 5
    threshold: float | None = None

    def fit(self, X: Any, Y: Any) -> Self:
        """Train a copy of the model on points and their observed labels; arguments as in `Estimator.fit`."""
        if self.model is not None:
            check_part("model", self.model)
        self.model_ = new_part(self.model).fit(X, Y)
        names = self.model_.label_names_
        self.classes_ = np.arange(self.model_.n_labels_) if names is None else np.array(names)
        if self.model_.input_kind == "features":
            self.n_features_in_ = self.model_.n_features_in_
        return self

    def predict(self, X: Any) -> sparse.csr_matrix:
        """Return the predicted labels of each point as a 0/1 matrix (points, labels)."""
        check_is_fitted(self, "model_")
        return self.model_.predict(X, k=self.k).to_indicator(self.threshold)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        tags.target_tags.single_output = False
        tags.classifier_tags.multi_class = False
        tags.classifier_tags.multi_label = True
        tags.input_tags.sparse = True
        return tags
