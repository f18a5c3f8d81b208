"""How a network is to be trained: everything that is not the network, its loss or its data."""

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
    """The training parameters of every neural model: the one place where they are named and described.

    `neural.trainer.train` takes such a plan; estimators inherit its fields as parameters of their own, with defaults
    of their own where these differ.

    Parameters
    ----------
    epochs : int
        Passes over the training points, at most.
    batch_size : int
        Points per batch.
    learning_rate : float
        Learning rate of parameter groups that name none of their own.
    accumulate : int
        Batches per step.
    clip : float or None
        Largest norm of all gradients together; None for any.
    weight_decay : float
        Weight decay of AdamW, for groups that name none.
    epsilon : float
        Epsilon of AdamW. From about the size of a gradient on, what rarely has one (a rare feature) moves less than
        the rest, instead of as far.
    warmup : float
        Share of all steps in which the learning rate rises from 0.
    schedule : {"constant", "linear", "cosine"}
        How the learning rate goes on; the latter two fall to 0.
    metric : str or None
        Metric to watch on held-out points, by any name of `longtail.metrics`; the weights of the best epoch are kept.
        None watches nothing.
    patience : int
        Training ends after this many epochs without a better `metric`.
    average_from : float or None
        Share of the epochs after which weights are averaged, one sample per epoch (stochastic weight averaging,
        Izmailov et al. 2018); the average is what is validated and kept. None for no average.
    precision : {"auto", "bf16", "float32"}
        bf16 is for matrix products only, weights and losses stay float32; "auto" is bf16 on a GPU.
    device : {"auto", "cpu", "cuda"}
        "auto" is a GPU where there is one.
    n_jobs : int
        CPU threads, -1 for all cores.
    checkpoint_seconds : float
        Least time between two checkpoints, where the run keeps any.
    random_state : int
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
    """Raise ParameterError for values that cannot be used."""
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
    """Return what the learning rates are multiplied with in step 0, 1, ... of n_steps."""
    rising = plan.warmup * n_steps
    if step < rising:
        return (step + 1) / (rising + 1)
    if plan.schedule == "constant":
        return 1.0
    done = (step - rising) / max(n_steps - rising, 1)
    return 1.0 - done if plan.schedule == "linear" else 0.5 * (1.0 + math.cos(math.pi * done))
