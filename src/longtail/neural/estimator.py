"""Base of all estimators that train a network: the parameters of a training plan, and held-out points."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, ClassVar

from longtail.core.estimator import Estimator
from longtail.core.parameters import check_share
from longtail.neural import held_out
from longtail.neural.plan import TrainingPlan, check_plan


@dataclass(kw_only=True, eq=False, repr=False)
class NetworkEstimator(TrainingPlan, Estimator):
    """Base of the estimators that train a network.

    Parameters
    ----------
    held_out : float, default 0.0
        Share of the points that are held out: training stops after `patience` epochs without a better `metric` on
        them, and the weights of the best epoch are kept. 0 trains on all points for all epochs.
    metric : str or None, default "P@1"
        Metric on the held-out points, by any name of `longtail.metrics`.
    epochs, batch_size, learning_rate, ...
        See `longtail.neural.plan.TrainingPlan`.
    """

    # The device, and whatever helps after a loss that is not finite, may change when training is resumed.
    free_on_resume: ClassVar[tuple[str, ...]] = ("device", "precision", "learning_rate", "clip", "checkpoint_seconds")

    held_out: float = 0.0
    metric: str | None = "P@1"

    def check_parameters(self) -> None:
        check_plan(self)
        check_share("held_out", self.held_out)
        if self.held_out:
            self._metric_scorer()

    def plan(self) -> TrainingPlan:
        """Return the training plan alone, without a metric if no points are held out."""
        plan = TrainingPlan(**{field.name: getattr(self, field.name) for field in fields(TrainingPlan)})
        plan.metric = self.metric if self.held_out else None
        return plan

    def _metric_scorer(self) -> Any:
        return held_out.metric_scorer(str(self.metric))
