"""Metrics as scikit-learn scorers, for GridSearchCV and similar tools."""

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
    """scikit-learn scorer, called as `scorer(estimator, X, Y)`; make it with `scorer(name)`.

    Returns a fraction, negated for metrics where lower is better.

    Attributes
    ----------
    metric : MetricName
        Metric and cut-off.
    propensity : PropensityModel
        Propensities of the labels, from the training counts of the scored estimator.
    """

    metric: MetricName
    propensity: PropensityModel

    def __call__(self, estimator: Any, X: Any, Y: Any) -> float:
        model = _model_of(estimator)
        Y = check_labels(Y)
        predictions = estimator.predict(X, k=self.metric.k)
        inverse = self._inverse(model, Y.shape[1]) if self.metric.base in NEEDS_PROPENSITIES else None
        value = score(Matches.of(predictions, Y, inverse_propensities=inverse), str(self.metric))
        return -value if self.metric.base in LOWER_IS_BETTER else value

    def _inverse(self, model: Any, n_labels: int) -> Floats:
        # Labels of Y without training points have count 0.
        counts = np.zeros(max(n_labels, model.n_labels_), dtype=np.int64)
        counts[: model.n_labels_] = model.label_counts_
        return np.asarray(self.propensity.inverse(counts, model.n_points_), dtype=np.float64)


def scorer(name: str, *, propensity: PropensityModel | None = None) -> Scorer:
    """Make a scikit-learn scorer from the name of a metric.

    Parameters
    ----------
    name : str
        Name with cut-off in any case, e.g. `"PSP@3"`.
    propensity : PropensityModel, optional
        Computes propensities from the training counts of the scored estimator (in a Pipeline, of its last step);
        `PropensityModel()` if not given.

    Returns
    -------
    Scorer

    Examples
    --------
    `GridSearchCV(model, grid, scoring=scorer("psp@3"))`
    """
    return Scorer(MetricName.parse(name), PropensityModel() if propensity is None else propensity)


def _model_of(estimator: Any) -> Any:
    """Return the longtail estimator: the estimator itself, or the last step of a scikit-learn Pipeline."""
    steps = getattr(estimator, "steps", None)
    model = steps[-1][1] if steps else estimator
    if not hasattr(model, "label_counts_"):
        raise NotFittedError(f"{type(model).__name__} has no label_counts_; pass a fitted longtail estimator")
    return model
