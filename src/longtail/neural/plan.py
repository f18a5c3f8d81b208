"""How a network is trained: every setting that is not part of the network, its loss or its data."""

from __future__ import annotations

import math
from dataclasses import dataclass

from longtail.core.parameters import (
    check_at_least_zero,
    check_choice,
    check_positive,
    check_seed,
    check_share,
    check_whole,
)
from longtail.core.threads import thread_count

SCHEDULES = ("constant", "linear", "cosine")
PRECISIONS = ("auto", "bf16", "float32")
DEVICES = ("auto", "cpu", "cuda")


@dataclass(kw_only=True, eq=False, repr=False)
class TrainingPlan:
    """The training parameters of every neural model.

    `neural.trainer.train` takes a plan. Estimators inherit its fields as parameters, some with other defaults.

    Parameters
    ----------
    epochs : int, default 10
        Passes over the training points; fewer if training stops early.
    batch_size : int, default 256
        Points per batch.
    learning_rate : float, default 1e-3
        Learning rate of parameter groups without one of their own.
    accumulate : int, default 1
        Batches per step.
    clip : float or None, default None
        Largest norm of all gradients together; None does not clip.
    weight_decay : float, default 0.0
        Weight decay of AdamW, for parameter groups without one of their own.
    epsilon : float, default 1e-8
        Epsilon of AdamW. When it is about the size of a gradient or larger, weights that rarely have a gradient (those
        of rare features) move less than others, instead of as far.
    warmup : float, default 0.0
        Share of all steps in which the learning rate rises from 0.
    schedule : {"constant", "linear", "cosine"}, default "constant"
        Learning rate after the warm-up; "linear" and "cosine" fall to 0.
    metric : str or None, default None
        Metric to watch on held-out points, by any name of `longtail.metrics`; the weights of the best epoch are kept.
        None keeps the last epoch.
    patience : int, default 3
        Training stops after this many epochs without a better `metric`.
    average_from : float or None, default None
        Share of the epochs after which weights are averaged, one sample per epoch (stochastic weight averaging,
        Izmailov et al. 2018); the average is validated and kept. None does not average.
    precision : {"auto", "bf16", "float32"}, default "auto"
        bf16 is for matrix products only, weights and losses stay float32; "auto" is bf16 on a GPU.
    device : {"auto", "cpu", "cuda"}, default "auto"
        "auto" is a GPU if there is one.
    n_jobs : int, default -1
        CPU threads, -1 for all cores.
    checkpoint_seconds : float, default 60.0
        Least time between two checkpoints, if the run keeps checkpoints.
    random_state : int, default 0
        Seed of everything random.
    """

    epochs: int = 10
    batch_size: int = 256
    learning_rate: float = 1e-3
    accumulate: int = 1
    clip: float | None = None
    weight_decay: float = 0.0
    epsilon: float = 1e-8
    warmup: float = 0.0
    schedule: str = "constant"
    metric: str | None = None
    patience: int = 3
    average_from: float | None = None
    precision: str = "auto"
    device: str = "auto"
    n_jobs: int = -1
    checkpoint_seconds: float = 60.0
    random_state: int = 0


def check_plan(plan: TrainingPlan) -> None:
    """Raise ParameterError for a value that cannot be used."""
    for name in ("epochs", "batch_size", "accumulate", "patience"):
        check_whole(name, getattr(plan, name), 1)
    check_seed("random_state", plan.random_state)
    check_positive(learning_rate=plan.learning_rate, epsilon=plan.epsilon)
    check_at_least_zero(weight_decay=plan.weight_decay, checkpoint_seconds=plan.checkpoint_seconds)
    if plan.clip is not None:
        check_positive(clip=plan.clip)
    check_share("warmup", plan.warmup)
    if plan.average_from is not None:
        check_share("average_from", plan.average_from)
    check_choice("schedule", plan.schedule, SCHEDULES)
    check_choice("precision", plan.precision, PRECISIONS)
    check_choice("device", plan.device, DEVICES)
    thread_count(plan.n_jobs)


def learning_rate_factor(plan: TrainingPlan, step: int, n_steps: int) -> float:
    """Return the factor of the learning rates in step 0, 1, ... of n_steps."""
    rising = plan.warmup * n_steps
    if step < rising:
        return (step + 1) / (rising + 1)
    if plan.schedule == "constant":
        return 1.0
    done = (step - rising) / max(n_steps - rising, 1)
    return 1.0 - done if plan.schedule == "linear" else 0.5 * (1.0 + math.cos(math.pi * done))
