"""Base of all estimators that train a network: the parameters of a training plan, and held-out points."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

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
    epochs : int, default 10
        Passes over the training points; fewer if training stops early.
    batch_size : int, default 256
        Points per batch.
    learning_rate : float, default 1e-3
        Learning rate of the network.
    accumulate : int, default 1
        Batches per step.
    clip : float or None, default None
        Largest norm of all gradients together; None does not clip.
    weight_decay : float, default 0.0
        Weight decay of AdamW.
    epsilon : float, default 1e-8
        Epsilon of AdamW.
    warmup : float, default 0.0
        Share of all steps in which the learning rate rises from 0.
    schedule : {"constant", "linear", "cosine"}, default "constant"
        Learning rate after the warm-up; "linear" and "cosine" fall to 0.
    metric : str or None, default "P@1"
        Metric on the held-out points, by any name of `longtail.metrics`; the weights of the best epoch are kept.
    patience : int, default 3
        Training stops after this many epochs without a better `metric`.
    average_from : float or None, default None
        Share of the epochs after which weights are averaged, one sample per epoch (SWA); None does not average.
    precision : {"auto", "bf16", "float32"}, default "auto"
        Precision of matrix products; "auto" is bf16 on a GPU. Weights and losses are float32.
    device : {"auto", "cpu", "cuda"}, default "auto"
        "auto" is a GPU if there is one.
    n_jobs : int, default -1
        CPU threads, -1 for all cores.
    checkpoint_seconds : float, default 60.0
        Least time between two checkpoints, if the run keeps checkpoints.
    random_state : int, default 0
        Seed of everything random.
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

    def _held_out_rows(self, n_points: int) -> NDArray[np.intp] | None:
        return held_out.split(n_points, self.held_out, self.random_state)[1] if self.held_out else None

    def _metric_scorer(self) -> Any:
        return held_out.metric_scorer(str(self.metric))
