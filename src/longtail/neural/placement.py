"""Where a network runs: device, number format, CPU threads, and one process or several."""

from __future__ import annotations

import atexit
import contextlib
import gc
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
    """Where a network runs, from `place`.

    Under `accelerate launch` or torchrun `processes` is greater than 1: each process has its own GPU and its share of
    every batch, and gradients are averaged over processes.
    """

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
        """Return the module, whose forward pass is a training step, wrapped to average gradients over processes."""
        return step if self.accelerator is None else self.accelerator.prepare_model(step)

    def autocast(self) -> contextlib.AbstractContextManager[Any]:
        """Return the context in which the network computes in this precision."""
        if self.precision == "float32":
            return contextlib.nullcontext()
        return torch.autocast(self.device.type, dtype=torch.bfloat16)


def place(device: str = "auto", precision: str = "auto") -> Placement:
    """Return the device and precision that these names mean on this machine.

    Parameters
    ----------
    device : {"auto", "cpu", "cuda"}, default "auto"
        "auto" is a GPU if there is one.
    precision : {"auto", "bf16", "float32"}, default "auto"
        "auto" is bf16 on a GPU and float32 on a CPU.

    Returns
    -------
    Placement

    Raises
    ------
    ParameterError
        If device is "cuda" and there is no GPU.
    """
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
    """Return the placement for prediction: as `place`, but device="cuda" falls back to the CPU without a GPU."""
    return place("auto" if device == "cuda" else device, precision)


def _accelerator(device: str) -> Any:
    try:
        from accelerate import Accelerator, DistributedDataParallelKwargs
    except ImportError as error:
        raise MissingExtraError("accelerate", "deep", "training in several processes") from error
    # A step may leave parameters unused, e.g. embeddings of labels that are not in the batch.
    unused = DistributedDataParallelKwargs(find_unused_parameters=True)
    # `Placement.autocast` sets the precision, so that one process and several compute the same.
    accelerator = Accelerator(cpu=device == "cpu", mixed_precision="no", kwargs_handlers=[unused])
    atexit.register(_leave_group, accelerator)
    return accelerator


def _leave_group(accelerator: Any) -> None:
    """End the threads of the process group when the process ends: one that still ran would abort it.

    They belong to the group, and wrapped modules, which the accelerator keeps, share it.
    """
    accelerator.free_memory()
    gc.collect()
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


@contextlib.contextmanager
def torch_threads(n_jobs: int | None) -> Iterator[None]:
    """Set the number of torch's CPU threads inside the block and restore the caller's number after it."""
    before = torch.get_num_threads()
    torch.set_num_threads(thread_count(n_jobs))
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextlib.contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seed torch inside the block and restore the caller's random state after it."""
    devices = [torch.cuda.current_device()] if torch.cuda.is_available() else []
    with torch.random.fork_rng(devices=devices):
        torch.manual_seed(seed)
        yield
