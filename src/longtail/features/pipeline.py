"""A model for texts made of features and a model for features, trained, saved and used as one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from scipy import sparse
from sklearn.base import clone

from longtail.core import codec, registry
from longtail.core.estimator import Estimator
from longtail.core.inputs import check_k
from longtail.core.model import part_state, restored_part
from longtail.core.predictions import Predictions, empty_top
from longtail.core.run import Run
from longtail.core.state import State
from longtail.errors import ParameterError
from longtail.features.text import TextFeatures


class TextPipeline(Estimator):
    """Texts to features to labels: `features` (default `TextFeatures()`), then `model` (default DiSMEC).

    Both are cloned by `fit` and kept as `features_` and `model_`; their parameters are reached as `model__C`,
    `features__min_df`. Texts are predicted in chunks, so memory does not grow with their number.
    """

    input_kind = "text"

    def __init__(self, *, model: Estimator | None = None, features: TextFeatures | None = None) -> None:
        self.model = model
        self.features = features

    def _check_parameters(self) -> None:
        if self.model is not None and not (isinstance(self.model, Estimator) and self.model.input_kind == "features"):
            raise ParameterError(f"model is {self.model!r}, but must be an estimator that is trained on features")
        if self.features is not None and not isinstance(self.features, TextFeatures):
            raise ParameterError(f"features is {self.features!r}, but must be TextFeatures")
        for part in (self.model, self.features):
            if part is not None:
                part._check_parameters()  # a wrong value is said before the texts are read, not after

    def _fit(self, X: Sequence[str], Y: sparse.csr_matrix, run: Run) -> None:
        self.features_ = TextFeatures() if self.features is None else clone(self.features)
        self.model_ = registry.estimator_class("dismec")() if self.model is None else clone(self.model)
        self.model_.fit(self.features_.fit_transform(X), Y, label_names=self.label_names_, run=run)

    def predict(self, X: Any, *, k: int = 5, exponent: float | None = None) -> Predictions:
        """The k best labels of each text; `exponent` goes to a model that has one (PropensityRerank, RankNet)."""
        if exponent is None:
            return super().predict(X, k=k)
        self._check_fitted()
        if "exponent" not in self.model_.get_params(deep=False):
            raise ParameterError(f"exponent is given, but {type(self.model_).__name__} has none to move")
        self._check_parameters()
        return self._answers(self._check_X(X, fitted=True), check_k(k, self.n_labels_), exponent=exponent)

    def _predict(self, X: Sequence[str], k: int) -> Predictions:
        return self._answers(X, k)

    def _answers(self, X: Sequence[str], k: int, **options: Any) -> Predictions:
        parts = [self.model_.predict(block, k=k, **options) for block in self.features_.transform_chunks(X)]
        return Predictions.concatenate(parts) if parts else Predictions(*empty_top(0, k))

    def _get_state(self) -> State:
        # What was fitted is kept: `model` and `features` may have been set anew since.
        state = State({"of_features": codec.encode(self.features_)})
        state.nest("features", self.features_._get_state())
        state.nest("model", part_state(self.model_, self.label_names_))
        return state

    def _set_state(self, state: State) -> None:
        self.features_ = codec.decode(state.values["of_features"])
        self.features_._set_state(state.part("features"))
        self.model_ = restored_part(state.part("model"), self.label_names_)
