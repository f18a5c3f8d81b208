"""Metrics as scikit-learn scorers, for GridSearchCV and its relatives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from longtail.core.inputs import check_labels
from longtail.errors import NotFittedError
from longtail.metrics.matches import Floats, Matches
from longtail.metrics.named import LOWER_IS_BETTER, NEEDS_PROPENSITIES, MetricName, score
from longtail.objectives import PropensityModel


@dataclass(frozen=True)
class Scorer:
    """Callable as `scorer(estimator, X, Y)`; gives a fraction, negative for metrics of which less is better."""

    metric: MetricName
    propensity: PropensityModel

    def __call__(self, estimator: Any, X: Any, Y: Any) -> float:
        model = _model_of(estimator)
        Y = check_labels(Y)
        predictions = estimator.predict(X, k=min(self.metric.k, model.n_labels_))
        inverse = self._inverse(model, Y.shape[1]) if self.metric.base in NEEDS_PROPENSITIES else None
        value = score(Matches.of(predictions, Y, inverse_propensities=inverse), str(self.metric))
        return -value if self.metric.base in LOWER_IS_BETTER else value

    def _inverse(self, model: Any, n_labels: int) -> Floats:
        # Labels of Y that training never saw have count 0.
        counts = np.zeros(max(n_labels, model.n_labels_), dtype=np.int64)
        counts[: model.n_labels_] = model.label_counts_
        return np.asarray(self.propensity.inverse(counts, model.n_points_), dtype=np.float64)


def scorer(name: str, *, propensity: PropensityModel | None = None) -> Scorer:
    """A scikit-learn scorer from a metric's name, e.g. `GridSearchCV(model, grid, scoring=scorer("psp@3"))`.

    Propensities come from the training counts of the estimator that is scored (in a Pipeline, of its last step) by
    `propensity`, by default `PropensityModel()`.
    """
    return Scorer(MetricName.parse(name), PropensityModel() if propensity is None else propensity)


def _model_of(estimator: Any) -> Any:
    """The longtail estimator: the estimator itself, or the last step of a scikit-learn Pipeline."""
    steps = getattr(estimator, "steps", None)
    model = steps[-1][1] if steps else estimator
    if not hasattr(model, "label_counts_"):
        raise NotFittedError(f"{type(model).__name__} has no label_counts_; a longtail estimator, fitted, is needed")
    return model
