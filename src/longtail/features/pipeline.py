"""A model behind a step that makes its features, trained, saved and used as one."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import clone

from longtail.core import codec, registry
from longtail.core.estimator import Estimator
from longtail.core.inputs import check_features, check_k
from longtail.core.model import part_state, restored_part
from longtail.core.predictions import Predictions, empty_top
from longtail.core.run import Run
from longtail.core.state import State
from longtail.errors import ParameterError
from longtail.features.scaling import unit_rows
from longtail.features.text import TextFeatures


class Pipeline(Estimator):
    """Base of the two below: a step that makes features, then `model` (default DiSMEC), cloned and kept as `model_`."""

    model: Estimator | None
    model_: Estimator

    @abstractmethod
    def _features(self, X: Any) -> Iterable[sparse.csr_matrix]:
        """The features of X for prediction, in blocks of rows."""

    def _check_parameters(self) -> None:
        if self.model is None:
            return
        if not (isinstance(self.model, Estimator) and self.model.input_kind == "features"):
            raise ParameterError(f"model is {self.model!r}, but must be an estimator that is trained on features")
        self.model._check_parameters()  # a wrong value is said before the texts are read, not after

    def _fit_model(self, X: sparse.csr_matrix, Y: sparse.csr_matrix, run: Run) -> None:
        self.model_ = registry.estimator_class("dismec")() if self.model is None else clone(self.model)
        self.model_.fit(X, Y, label_names=self.label_names_, run=run)

    def predict(self, X: Any, *, k: int = 5, exponent: float | None = None) -> Predictions:
        """The k best labels of each point; `exponent` goes to a model that has one (PropensityRerank, RankNet)."""
        if exponent is None:
            return super().predict(X, k=k)
        self._check_fitted()
        if not isinstance(self.model_, Pipeline) and "exponent" not in self.model_.get_params(deep=False):
            raise ParameterError(f"exponent is given, but {type(self.model_).__name__} has none to move")
        self._check_parameters()
        return self._answers(self._check_X(X, fitted=True), check_k(k, self.n_labels_), exponent=exponent)

    @property
    def score_groups_(self) -> NDArray[np.int8] | None:
        """Which labels have scores of which model, where `model` says so (Taug)."""
        return getattr(self.model_, "score_groups_", None)

    def _predict(self, X: Any, k: int) -> Predictions:
        return self._answers(X, k)

    def _answers(self, X: Any, k: int, **options: Any) -> Predictions:
        parts = [self.model_.predict(block, k=k, **options) for block in self._features(X)]
        return Predictions.concatenate(parts) if parts else Predictions(*empty_top(0, k))

    def _get_state(self) -> State:
        # What was fitted is kept: `model` may have been set anew since.
        state = State()
        state.nest("model", part_state(self.model_, self.label_names_))
        return state

    def _set_state(self, state: State) -> None:
        self.model_ = restored_part(state.part("model"), self.label_names_)


class TextPipeline(Pipeline):
    """Texts to features to labels: `features` (default `TextFeatures()`), then `model` (default DiSMEC).

    Both are cloned by `fit` and kept as `features_` and `model_`; their parameters are reached as `model__C`,
    `features__min_df`. Texts are predicted in chunks, so memory does not grow with their number.
    """

    input_kind = "text"

    def __init__(self, *, model: Estimator | None = None, features: TextFeatures | None = None) -> None:
        self.model = model
        self.features = features

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.features is None:
            return
        if not isinstance(self.features, TextFeatures):
            raise ParameterError(f"features is {self.features!r}, but must be TextFeatures")
        self.features._check_parameters()

    def _fit(self, X: Sequence[str], Y: sparse.csr_matrix, run: Run) -> None:
        self.features_ = TextFeatures() if self.features is None else clone(self.features)
        self._fit_model(self.features_.fit_transform(X), Y, run)

    def _features(self, X: Sequence[str]) -> Iterable[sparse.csr_matrix]:
        return self.features_.transform_chunks(X)

    def _get_state(self) -> State:
        state = super()._get_state()
        state.values["of_features"] = codec.encode(self.features_)
        state.nest("features", self.features_._get_state())
        return state

    def _set_state(self, state: State) -> None:
        super()._set_state(state)
        self.features_ = codec.decode(state.values["of_features"])
        self.features_._set_state(state.part("features"))


class UnitRows(Pipeline):
    """Rows of features scaled to length 1, in training and in prediction, then `model` (default DiSMEC).

    For counts, binary and other features as they come; most models expect rows of about that length. The model's
    parameters are reached as `model__C`.
    """

    def __init__(self, *, model: Estimator | None = None) -> None:
        self.model = model

    def _check_X(self, X: Any, *, fitted: bool = False) -> sparse.csr_matrix:
        # Not how long rows are, as other models do.
        return check_features(X, n_features=self.n_features_in_ if fitted else None)

    def _fit(self, X: sparse.csr_matrix, Y: sparse.csr_matrix, run: Run) -> None:
        self._fit_model(unit_rows(X), Y, run)

    def _features(self, X: sparse.csr_matrix) -> Iterable[sparse.csr_matrix]:
        return [unit_rows(X)]
