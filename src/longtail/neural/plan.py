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

SCHEDULES = ("constant", "linear", "cosine")
PRECISIONS = ("auto", "bf16", "float32")
DEVICES = ("auto", "cpu", "cuda")


@dataclass(frozen=True)
class TrainingPlan:
    """Settings of `neural.trainer.train`; `check` raises a ParameterError for values that cannot be used.

    epochs: passes over the batches, at most. learning_rate: of parameter groups that name none of their own.
    batch_size: points of a batch, for whoever makes the batches. accumulate: batches of one step. clip: largest norm of
    all gradients together (None: any). weight_decay: of AdamW, for groups that name none. epsilon: of AdamW; from about
    the size of a gradient on, what rarely has one (a rare feature) moves less instead of as far as all the rest.
    warmup: share of all steps in which the learning rate rises from 0. schedule: how it goes on, "constant", "linear"
    or "cosine", the latter two down to 0.
    metric, patience: after each epoch this metric of `validate` is looked at; the weights of the best epoch are kept,
    and training ends after `patience` epochs without a better one.
    average_from: share of the epochs after which weights are averaged, one sample an epoch (stochastic weight
    averaging, Izmailov et al. 2018); the average is what is validated and kept. None: no average.
    precision: "float32", "bf16" (matrix products only; weights and losses stay float32), "auto": bf16 on a GPU.
    device: "cpu", "cuda", "auto": a GPU where there is one. n_jobs: CPU threads.
    checkpoint_seconds: least time between two checkpoints, where the run keeps any.
    """

    epochs: int = 10
    learning_rate: float = 1e-3
    batch_size: int = 256
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
    seed: int = 0
    n_jobs: int = -1
    checkpoint_seconds: float = 60.0

    def check(self) -> None:
        for name in ("epochs", "batch_size", "accumulate", "patience"):
            check_whole(name, getattr(self, name), 1)
        check_seed("seed", self.seed)
        check_positive(learning_rate=self.learning_rate, epsilon=self.epsilon)
        check_at_least_zero(weight_decay=self.weight_decay, checkpoint_seconds=self.checkpoint_seconds)
        if self.clip is not None:
            check_positive(clip=self.clip)
        check_share("warmup", self.warmup)
        if self.average_from is not None:
            check_share("average_from", self.average_from)
        check_choice("schedule", self.schedule, SCHEDULES)
        check_choice("precision", self.precision, PRECISIONS)
        check_choice("device", self.device, DEVICES)

    def learning_rate_factor(self, step: int, n_steps: int) -> float:
        """What the learning rates are multiplied with in step 0, 1, ... of n_steps."""
        rising = self.warmup * n_steps
        if step < rising:
            return (step + 1) / (rising + 1)
        if self.schedule == "constant":
            return 1.0
        done = (step - rising) / max(n_steps - rising, 1)
        return 1.0 - done if self.schedule == "linear" else 0.5 * (1.0 + math.cos(math.pi * done))
