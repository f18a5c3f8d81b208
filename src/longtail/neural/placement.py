"""Where a network runs: device, number format, CPU threads, and one process or several."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from longtail.core.threads import thread_count
from longtail.errors import MissingExtraError, ParameterError


@dataclass(frozen=True)
class Placement:
    """Made by `place`. `processes` > 1 under `accelerate launch` or torchrun: each has its own GPU and its share of
    every batch, and gradients are averaged between them."""

    device: torch.device
    precision: str
    accelerator: Any = None

    @property
    def processes(self) -> int:
        return 1 if self.accelerator is None else int(self.accelerator.num_processes)

    @property
    def rank(self) -> int:
        return 0 if self.accelerator is None else int(self.accelerator.process_index)

    def wrapped(self, step: nn.Module) -> nn.Module:
        """The module whose forward pass is a training step, so that gradients meet between processes."""
        return step if self.accelerator is None else self.accelerator.prepare_model(step)

    def autocast(self) -> contextlib.AbstractContextManager[Any]:
        if self.precision == "float32":
            return contextlib.nullcontext()
        return torch.autocast(self.device.type, dtype=torch.bfloat16)


def place(device: str = "auto", precision: str = "auto") -> Placement:
    """The device and precision that these words mean on this machine; an error where a GPU is asked for in vain."""
    if device == "cuda" and not torch.cuda.is_available():
        built = "torch was built without CUDA" if torch.version.cuda is None else "torch finds no usable CUDA device"
        raise ParameterError(f"device is 'cuda', but there is no GPU here: {built}; set device='cpu' or 'auto'")
    name = "cuda" if device == "cuda" or (device == "auto" and torch.cuda.is_available()) else "cpu"
    if precision == "auto":
        precision = "bf16" if name == "cuda" else "float32"
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        accelerator = _accelerator(name)
        return Placement(accelerator.device, precision, accelerator)
    return Placement(torch.device(name), precision)


def place_to_predict(device: str, precision: str) -> Placement:
    """As `place`, but a model that was trained with device='cuda' predicts where there is no GPU, too."""
    return place("auto" if device == "cuda" else device, precision)


def _accelerator(device: str) -> Any:
    try:
        from accelerate import Accelerator, DistributedDataParallelKwargs
    except ImportError as error:
        raise MissingExtraError("accelerate", "deep", "training in several processes") from error
    # A step may leave parameters untouched, e.g. embeddings of labels that are not in the batch.
    unused = DistributedDataParallelKwargs(find_unused_parameters=True)
    # Precision is ours (`autocast`), so that one process and several compute the same.
    return Accelerator(cpu=device == "cpu", mixed_precision="no", kwargs_handlers=[unused])


@contextlib.contextmanager
def torch_threads(n_jobs: int | None) -> Iterator[None]:
    """torch's CPU threads for the time of a piece of work; the caller's number comes back afterwards."""
    before = torch.get_num_threads()
    torch.set_num_threads(thread_count(n_jobs))
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextlib.contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Everything random inside follows from the seed, and the caller's random state is left as it was."""
    devices = [torch.cuda.current_device()] if torch.cuda.is_available() else []
    with torch.random.fork_rng(devices=devices):
        torch.manual_seed(seed)
        yield
