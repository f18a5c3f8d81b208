"""The training loop of every neural model: steps, checkpoints, early stopping, weight averages, errors."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import torch
from torch import nn

from longtail.core.progress import reported
from longtail.core.run import Run
from longtail.errors import ParameterError, TrainingError, first_line
from longtail.neural import snapshot
from longtail.neural.batches import Batches, n_points, split, to_device
from longtail.neural.optimisers import Optimisers
from longtail.neural.placement import Placement, place, seeded, torch_threads
from longtail.neural.plan import TrainingPlan, check_plan, learning_rate_factor

logger = logging.getLogger(__name__)

Validate = Callable[[nn.Module], dict[str, float]]

_CHECK_SECONDS = 1.0  # how often the loss is fetched from the device, to show it and to check that it is finite


@dataclass
class History:
    """Record of a training.

    Attributes
    ----------
    epochs : list of dict
        Per epoch its number ("epoch"), mean loss ("loss"), "seconds" and metrics by name.
    best_epoch : int or None
        Epoch whose weights were kept; without a metric the last one.
    parts : int
        Number of parts that batches were split into to fit into memory.
    """

    epochs: list[dict[str, float]] = field(default_factory=list)
    best_epoch: int | None = None
    parts: int = 1


def train(
    module: nn.Module,
    batches: Batches,
    plan: TrainingPlan,
    *,
    validate: Validate | None = None,
    run: Run | None = None,
    part: str = "training",
) -> History:
    """Train a module in place; afterwards it is in eval mode with the weights of the best epoch, or their average.

    Parameters
    ----------
    module : nn.Module
        Its `training_step(batch)` returns the mean loss over the batch's points. Optional methods are
        `parameter_groups(plan)`, see `Optimisers`, and `begin_step(share)`, which is called before each step with the
        share of the training that is done.
    batches : Batches
        Batches of each epoch.
    plan : TrainingPlan
        Training parameters.
    validate : callable or None, default None
        Takes the module, in eval mode and without gradients, after each epoch and returns metrics by name.
    run : Run or None, default None
        Progress, and a checkpoint that the caller has opened. With a checkpoint, a killed training resumes from the
        last one and ends as if it had not been killed.
    part : str, default "training"
        Name of this training in the checkpoint, for a model with several trainings.

    Returns
    -------
    History

    Raises
    ------
    ParameterError
        If the plan has a value that cannot be used, or a metric that `validate` does not return.
    TrainingError
        If a loss, gradient or weight is not finite, or a single point does not fit into memory.
    """
    check_plan(plan)
    if plan.metric is not None and validate is None:
        raise ParameterError(f"metric is {plan.metric!r}, but there is nothing to validate on; set metric=None")
    placement = place(plan.device, plan.precision)  # first, because with several GPUs it assigns one to this process
    with seeded(plan.random_state), torch_threads(plan.n_jobs):
        return _Training(module, batches, plan, placement, validate, run or Run(), part).go()


class _Step(nn.Module):
    """A training step as a forward pass, which several processes must call so that their gradients are averaged."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, batch: Any) -> torch.Tensor:
        loss: torch.Tensor = self.module.training_step(batch)  # type: ignore[operator]
        return loss


class _Training:
    """One training: its state and the loop."""

    def __init__(
        self,
        module: nn.Module,
        batches: Batches,
        plan: TrainingPlan,
        placement: Placement,
        validate: Validate | None,
        run: Run,
        part: str,
    ) -> None:
        self.part = part  # the part of the checkpoint that this training replaces each time
        self.module, self.batches, self.plan, self.validate, self.run = module, batches, plan, validate, run
        self.placement, self.device = placement, placement.device
        module.to(self.device)
        self.training_step = placement.wrapped(_Step(module))
        self.begin_step = getattr(module, "begin_step", None)
        self.optimisers = Optimisers(module, plan)
        self.steps_per_epoch = -(-len(batches) // plan.accumulate)
        self.history = History()
        self.epoch, self.step_of_epoch = 0, 0
        self.average: snapshot.Tensors = {}
        self.n_averaged = 0
        self.best: snapshot.Tensors = {}
        self.loss_sum = torch.zeros((), device=self.device)
        self.broken_at = torch.full((), -1, device=self.device)  # the first step that was not finite, if any

    # --- the loop ----------------------------------------------------------------------------------------------------

    def go(self) -> History:
        """Train to the end, from the checkpoint if there is one."""
        self._resume()
        self.last_checkpoint = self.last_check = time.monotonic()
        with reported(self.run.progress, "train", self.plan.epochs * self.steps_per_epoch) as advance:
            advance(self.epoch * self.steps_per_epoch + self.step_of_epoch)
            while self.epoch < self.plan.epochs and not self._out_of_patience():
                self._train_epoch()
                self._end_epoch()
        self._keep_best()
        return self.history

    def _train_epoch(self) -> None:
        self.module.train()
        self.started = time.monotonic()
        iterator = iter(self.batches.epoch(self.epoch))
        state = snapshot.random_state(self.device)
        list(islice(iterator, self.step_of_epoch * self.plan.accumulate))  # done before the checkpoint
        snapshot.restore_random_state(state, self.device)
        while group := list(islice(iterator, self.plan.accumulate)):
            self._take_step(group)
            self.step_of_epoch += 1
            self.run.progress.advance()
            if time.monotonic() - self.last_check >= _CHECK_SECONDS:
                self._check_loss()
            if time.monotonic() - self.last_checkpoint >= self.plan.checkpoint_seconds:
                self._checkpoint()

    def _take_step(self, group: list[Any]) -> None:
        number = self.epoch * self.steps_per_epoch + self.step_of_epoch
        n_steps = self.plan.epochs * self.steps_per_epoch
        if self.begin_step is not None:  # not in `training_step`, which one step may call many times
            self.begin_step(number / n_steps)
        while True:
            try:
                loss = self._gradients(group)
                break
            except (torch.OutOfMemoryError, RuntimeError) as error:
                if not is_out_of_memory(error):
                    raise
                shortage = first_line(error)
            self._split_further(group, shortage)  # outside the handler, whose traceback keeps the step's tensors alive
        finite = torch.isfinite(loss)
        if self.plan.clip is not None:
            finite &= torch.isfinite(self.optimisers.clip_gradients(self.plan.clip))
        self.broken_at = torch.where(finite | (self.broken_at >= 0), self.broken_at, number)
        self.loss_sum += loss
        self.optimisers.step(learning_rate_factor(self.plan, number, n_steps))

    def _gradients(self, group: list[Any]) -> torch.Tensor:
        """Add up the gradients of a step, batch by batch and part by part; return the mean loss of this process."""
        self.optimisers.clear_gradients()
        total = sum(n_points(batch) for batch in group)
        mean = torch.zeros((), device=self.device)
        for batch in group:
            for part in split(batch, self.history.parts):
                own, share = self._own_share(part)
                with self.placement.autocast():
                    loss = self.training_step(to_device(own, self.device))
                weighted = loss.float() * (share / total)
                weighted.backward()
                mean += weighted.detach()
        return mean

    def _own_share(self, part: Any) -> tuple[Any, float]:
        """Return this process's share of a batch, and its weight, so that the mean over processes is the batch mean."""
        processes, rank = self.placement.processes, self.placement.rank
        if processes == 1:
            return part, n_points(part)
        shares = split(part, processes)
        if rank < len(shares):
            return shares[rank], n_points(shares[rank]) * processes
        return shares[0], 0.0  # fewer points than processes: this one computes, but with weight 0

    def _split_further(self, group: list[Any], shortage: str) -> None:
        """Compute batches in twice as many parts from now on; raise TrainingError if that is not possible."""
        self.optimisers.clear_gradients()
        if self.device.type == "cuda":
            torch.cuda.empty_cache()
        largest = max(n_points(batch) for batch in group)
        if self.placement.processes > 1:  # the others do not know about it and would wait for this one
            raise TrainingError(f"out of memory on {self.device} ({shortage}); set a smaller batch_size")
        if self.history.parts >= largest:
            raise TrainingError(
                f"a single point does not fit into the memory of {self.device} ({shortage}); "
                "make the network smaller (fewer labels, narrower layers), or train on a machine with more memory"
            )
        self.history.parts *= 2
        logger.warning(
            "out of memory on %s: batches of %d points are now computed in %d parts whose gradients are added up; "
            "a smaller batch_size would be faster",
            self.device, largest, self.history.parts,
        )  # fmt: skip

    # --- the end of an epoch -----------------------------------------------------------------------------------------

    def _end_epoch(self) -> None:
        self._check_loss()
        self._check_weights()
        record = {"epoch": self.epoch, "loss": float(self.loss_sum) / max(self.step_of_epoch, 1)}
        record["seconds"] = time.monotonic() - self.started
        averaging = self.plan.average_from is not None and self.epoch >= self.plan.average_from * self.plan.epochs
        if averaging:
            self._add_to_average()
        if self.validate is not None:
            record |= self._validated()
        self.history.epochs.append(record)
        self._show(record)
        if self._is_best(record):
            self.history.best_epoch = self.epoch
            if self.plan.metric is not None:
                self.best = _copy(self.average if averaging else self.module.state_dict())
        self.epoch, self.step_of_epoch = self.epoch + 1, 0
        self.loss_sum.zero_()

    def _add_to_average(self) -> None:
        self.n_averaged += 1
        now = self.module.state_dict()
        if self.n_averaged == 1:
            self.average = {name: tensor.detach().clone() for name, tensor in now.items()}
            return
        for name, mean in self.average.items():
            if mean.is_floating_point():
                mean.add_((now[name] - mean) / self.n_averaged)
            else:
                mean.copy_(now[name])

    def _validated(self) -> dict[str, float]:
        """Return the metrics of the module, with the average of its weights if there is one; restore its weights."""
        assert self.validate is not None
        self.module.eval()
        own = _copy(self.module.state_dict()) if self.average else None
        if own is not None:
            self.module.load_state_dict(self.average)
        state = snapshot.random_state(self.device)
        with torch.no_grad(), self.placement.autocast():
            metrics = self.validate(self.module)
        snapshot.restore_random_state(state, self.device)
        if own is not None:
            self.module.load_state_dict(own)
        if self.plan.metric is not None and self.plan.metric not in metrics:
            raise ParameterError(f"metric is {self.plan.metric!r}, but validation measured only {', '.join(metrics)}")
        return metrics

    def _is_best(self, record: dict[str, float]) -> bool:
        metric, best = self.plan.metric, self.history.best_epoch
        return metric is None or best is None or record[metric] > self.history.epochs[best][metric]

    def _out_of_patience(self) -> bool:
        best = self.history.best_epoch
        return self.plan.metric is not None and best is not None and self.epoch - best > self.plan.patience

    def _keep_best(self) -> None:
        kept = self.best or self.average
        if kept:
            self.module.load_state_dict(kept)
        self.optimisers.clear_gradients()
        self.module.eval()

    # --- checks and checkpoints --------------------------------------------------------------------------------------

    def _check_loss(self) -> None:
        """Fetch and show the loss; raise TrainingError if it or a gradient was not finite since the last check."""
        self.last_check = time.monotonic()
        broken = int(self.broken_at)
        if broken >= 0:
            raise self._not_finite("the loss or its gradient is not finite in", broken)
        if self.step_of_epoch:
            mean = float(self.loss_sum) / self.step_of_epoch
            self._show((self.history.epochs[-1] if self.history.epochs else {}) | {"epoch": self.epoch, "loss": mean})

    def _check_weights(self) -> None:
        """Raise TrainingError for weights that are not finite: a gradient may be broken while the loss is finite."""
        if not all(bool(torch.isfinite(weight).all()) for weight in self.module.parameters()):
            last = self.epoch * self.steps_per_epoch + self.step_of_epoch - 1
            raise self._not_finite("weights are not finite after", last)

    def _not_finite(self, what: str, number: int) -> TrainingError:
        epoch, step = divmod(number, self.steps_per_epoch)
        kept = self.run.checkpoint
        written = kept is not None and kept.get(self.part) is not None
        saved = f"; the last good checkpoint is kept in {kept.folder}" if kept and written else ""
        return TrainingError(
            f"{what} step {step + 1} of epoch {epoch + 1} (step {number + 1} of the training){saved}; "
            "a smaller learning_rate, a clip, or precision='float32' may help"
        )

    def _show(self, record: dict[str, float]) -> None:
        shown = [f"epoch {int(record['epoch']) + 1}"]
        shown += [f"{name} {value:.4g}" for name, value in record.items() if name not in ("epoch", "seconds")]
        self.run.progress.note(", ".join(shown))

    def _checkpoint(self) -> None:
        if self.run.checkpoint is None:
            return
        self._check_loss()  # weights that are not finite must not replace a good checkpoint
        self._check_weights()
        tensors = {
            "model": self.module.state_dict(),
            "average": self.average,
            "best": self.best,
            "random": snapshot.random_state(self.device),
            "loop": {"loss_sum": self.loss_sum},
        }
        counters = {
            "epoch": self.epoch,
            "step_of_epoch": self.step_of_epoch,
            "n_averaged": self.n_averaged,
            "epochs": self.history.epochs,
            "best_epoch": self.history.best_epoch,
            "parts": self.history.parts,
        }
        self.run.checkpoint.put(self.part, snapshot.pack(tensors, self.optimisers.state(), counters))
        self.last_checkpoint = time.monotonic()

    def _resume(self) -> None:
        arrays = None if self.run.checkpoint is None else self.run.checkpoint.get(self.part)
        if arrays is None:
            return
        tensors, optimisers, counters = snapshot.unpack(arrays)
        self.module.load_state_dict(tensors["model"])
        self.optimisers.restore(optimisers)
        self.average = {name: tensor.to(self.device) for name, tensor in tensors.get("average", {}).items()}
        self.best = tensors.get("best", {})
        self.epoch, self.step_of_epoch = counters["epoch"], counters["step_of_epoch"]
        self.n_averaged = counters["n_averaged"]
        self.history = History(counters["epochs"], counters["best_epoch"], counters["parts"])
        self.loss_sum = tensors["loop"]["loss_sum"].to(self.device)
        snapshot.restore_random_state(tensors["random"], self.device)


def _copy(tensors: dict[str, torch.Tensor]) -> snapshot.Tensors:
    """Copy tensors to the CPU, where the best weights take no memory of the device."""
    return {name: tensor.detach().to("cpu", copy=True) for name, tensor in tensors.items()}


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether torch or Python ran out of memory."""
    return (
        isinstance(error, (torch.OutOfMemoryError, MemoryError))
        or "not enough memory" in str(error)
        or "alloc_cpu" in str(error)
    )
