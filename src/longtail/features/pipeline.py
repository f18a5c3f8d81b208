"""A feature step and a model, trained, saved and used as one."""

from __future__ import annotations

import logging
import time
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from longtail.core import codec
from longtail.core.base import clone
from longtail.core.calibrated import ModelCalibration
from longtail.core.estimator import Estimator, Prepared
from longtail.core.explanation import Explanation
from longtail.core.inputs import check_features
from longtail.core.predictions import Predictions, empty_top
from longtail.core.progress import reported
from longtail.core.run import Run
from longtail.core.state import State
from longtail.core.wrapper import Wrapper
from longtail.errors import ModelError, ParameterError
from longtail.features.places import placed
from longtail.features.scaling import unit_rows
from longtail.features.text import TextFeatures

logger = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class WeightedPoints(Prepared):
    """Training data with weights of points, which the model inside gets.

    Parameters
    ----------
    X : csr_matrix or sequence of str
        Points.
    Y : csr_matrix of shape (n_points, n_labels)
        Observed labels.
    sample_weight : array_like or None
        Weight per point.
    """

    sample_weight: Any


@dataclass(kw_only=True, eq=False, repr=False)
class Pipeline(Wrapper):
    """Base of the wrappers that compute features for a model.

    Parameters
    ----------
    model : Estimator or None, default None
        A model that reads features; None stands for `DiSMEC`.
    """

    slot = "model"

    model: Estimator | None = None

    @property
    def model_(self) -> Any:
        """The fitted model."""
        return self.parts_[0]

    @property
    def score_groups_(self) -> NDArray[np.int8] | None:  # type: ignore[override]
        """The `score_groups_` of the model."""
        return None if not hasattr(self, "parts_") else self.model_.score_groups_

    @property
    def score_scale(self) -> str | None:  # type: ignore[override]
        """The `score_scale` of the model."""
        return None if not hasattr(self, "parts_") else self.model_.score_scale

    def has_probabilities(self) -> bool:
        """Return whether this model was calibrated, or the model inside has probabilities."""
        return super().has_probabilities() or (hasattr(self, "parts_") and self.model_.has_probabilities())

    def own_calibration(self) -> ModelCalibration | None:
        """Return the calibration of this model, or that of the model inside."""
        if self.probabilities_ is not None or not hasattr(self, "parts_"):
            return self.probabilities_
        inside: ModelCalibration | None = self.model_.own_calibration()
        return inside

    def _probabilities(self, found: Predictions) -> NDArray[np.float32]:
        probabilities: NDArray[np.float32] = (
            self.model_._probabilities(found) if self.probabilities_ is None else super()._probabilities(found)
        )
        return probabilities

    def _scores_to_calibrate(self, found: Predictions) -> NDArray[np.float32]:
        scores: NDArray[np.float32] = self.model_._scores_to_calibrate(found)
        return scores

    def _held_out_rows(self, n_points: int) -> NDArray[np.intp] | None:
        rows: NDArray[np.intp] | None = self.model_._held_out_rows(n_points)
        return rows

    @abstractmethod
    def _features(self, X: Any) -> Iterable[sparse.csr_matrix]:
        """Return the features of X for prediction, in blocks of rows."""

    def check_parameters(self) -> None:
        if self.model is not None and not (isinstance(self.model, Estimator) and self.model.input_kind == "features"):
            raise ParameterError(f"model is {self.model!r}, but must be an estimator that is trained on features")
        super().check_parameters()

    def takes_weights(self) -> bool:
        return self._new_part().takes_weights()

    def takes_relevances(self) -> bool:
        return self._new_part().takes_relevances()

    def _prepare(self, X: Any, Y: sparse.csr_matrix, *, sample_weight: Any = None, **more: Any) -> WeightedPoints:
        super()._prepare(X, Y, **more)
        if sample_weight is not None and not self.takes_weights():
            raise ParameterError(f"fit of {type(self._new_part()).__name__} takes no sample_weight")
        return WeightedPoints(X, Y, sample_weight)

    def _fit_model(self, X: sparse.csr_matrix, prepared: Prepared, run: Run) -> None:
        assert isinstance(prepared, WeightedPoints)
        more = {} if prepared.sample_weight is None else {"sample_weight": prepared.sample_weight}
        model = self._new_part()
        self.parts_ = [model.fit(X, prepared.Y, label_names=self.label_names_, run=run.part("model"), **more)]

    def _predict(self, X: Any, k: int) -> Predictions:
        blocks = [self.model_.predict(block, k=k) for block in self._features(X)]
        return Predictions.concatenate(blocks) if blocks else Predictions(*empty_top(0, k))

    def _explain(self, X: Any, label: int) -> Explanation:
        found: Explanation = self.model_._explain(next(iter(self._features(X))), label)
        return found


@dataclass(kw_only=True, eq=False, repr=False)
class TextPipeline(Pipeline):
    """Text features and a model that reads them.

    Texts are predicted in chunks, so memory does not grow with their number.

    Parameters
    ----------
    model : Estimator or None, default None
        A model that reads features; None stands for `DiSMEC`. Its parameters can be set as `model__C`.
    features : TextFeatures or None, default None
        How texts become features; None stands for `TextFeatures()`. Its parameters can be set as `features__min_df`.

    Attributes
    ----------
    model_ : Estimator
        Fitted model.
    features_ : TextFeatures
        Fitted features.
    """

    input_kind = "text"

    features: TextFeatures | None = None

    def with_default_parts(self) -> Self:
        if self.features is None:
            self.features = TextFeatures()
        return super().with_default_parts()

    def check_parameters(self) -> None:
        super().check_parameters()
        if self.features is None:
            return
        if not isinstance(self.features, TextFeatures):
            raise ParameterError(f"features is {self.features!r}, but must be TextFeatures")
        self.features.check_parameters()

    def _fit(self, prepared: Prepared, run: Run) -> None:
        self.features_ = TextFeatures() if self.features is None else clone(self.features)
        started = time.perf_counter()
        X = self._training_features(prepared.X, run)
        seconds, per_text = time.perf_counter() - started, X.nnz / X.shape[0]
        logger.info("%d features of %d texts, %.1f per text, in %.1f s", X.shape[1], X.shape[0], per_text, seconds)
        self._fit_model(X, prepared, run)

    def _training_features(self, texts: Sequence[str], run: Run) -> sparse.csr_matrix:
        if run.workspace.folder is not None or run.engine.has_helpers:
            return self.features_.fit_transform_in_parts(texts, run)
        if self.features_.embeddings is None:  # a matter of seconds
            return self.features_.fit_transform(texts)
        with reported(run.progress, "features", len(texts)) as advance:

            def read() -> Iterator[str]:
                for text in texts:
                    yield text
                    advance()

            return self.features_.fit_transform(read())

    def _features(self, X: Sequence[str]) -> Iterable[sparse.csr_matrix]:
        return self.features_.transform_chunks(X)

    def _explain(self, X: Sequence[str], label: int) -> Explanation:
        return placed(super()._explain(X, label), X[0], self.features_)

    def _get_state(self) -> State:
        state = super()._get_state()
        state.values["of_features"] = codec.encode(self.features_)
        state.nest("features", self.features_._get_state())
        return state

    def _set_state(self, state: State) -> None:
        self.features_ = codec.decode(state.values["of_features"])
        if not isinstance(self.features_, TextFeatures):
            raise ModelError("of_features are not TextFeatures")
        self.features_.check_parameters()
        self.features_._set_state(state.part("features"))
        super()._set_state(state)

    def _check_part(self, part: Estimator, *n_labels: int) -> None:
        if part.input_kind != "features" or part.n_features_in_ != self.features_.n_features_:
            raise ModelError(f"the model inside does not read the {self.features_.n_features_} features of the texts")
        if part.n_labels_ not in n_labels:
            raise ModelError(f"the model inside has {part.n_labels_} labels, but must have {n_labels[0]}")


@dataclass(kw_only=True, eq=False, repr=False)
class UnitRows(Pipeline):
    """Feature rows scaled to length 1, in training and in prediction, and a model that reads them.

    For counts, binary and other raw features: most models expect rows of about length 1.

    Parameters
    ----------
    model : Estimator or None, default None
        A model that reads features; None stands for `DiSMEC`. Its parameters can be set as `model__C`.

    Attributes
    ----------
    model_ : Estimator
        Fitted model.
    """

    def _check_X(self, X: Any, *, fitted: bool = False) -> sparse.csr_matrix:
        # Unlike in other models, rows may be of any length.
        return check_features(X, n_features=self.n_features_in_ if fitted else None)

    def _fit(self, prepared: Prepared, run: Run) -> None:
        self._fit_model(unit_rows(prepared.X), prepared, run)

    def _features(self, X: sparse.csr_matrix) -> Iterable[sparse.csr_matrix]:
        return [unit_rows(X)]


def model_behind(model: Estimator) -> Estimator:
    """Return the fitted model inside a `TextPipeline` or `UnitRows`; any other model is returned as it is."""
    while isinstance(model, Pipeline):
        model = model.model_
    return model
