"""Batches of points: the interface that the trainer expects, and plain shuffled batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
import torch


class Batches(Protocol):
    """Batches of an epoch: tensors, or tuples, lists or dicts of tensors, whose first dimension is the points."""

    def __len__(self) -> int:
        """Return the number of batches per epoch."""

    def epoch(self, epoch: int) -> Iterable[Any]:
        """Return the batches of one epoch; repeated calls give the same batches."""


class ShuffledRows:
    """Row numbers of points, in a new order every epoch; the module looks up the points itself.

    For data that is on the device as a whole (see `DeviceCsr`), so that only row numbers are transferred.

    Parameters
    ----------
    rows : array of int, or int
        Row numbers; an int n stands for 0 to n - 1.
    batch_size : int
        Rows per batch.
    seed : int
        Seed of the orders.
    """

    def __init__(self, rows: np.ndarray | int, batch_size: int, seed: int) -> None:
        self.rows = np.arange(rows) if isinstance(rows, int) else np.asarray(rows)
        self.batch_size = min(batch_size, max(self.rows.size, 1))
        self.seed = seed

    def __len__(self) -> int:
        return -(-self.rows.size // self.batch_size)

    def epoch(self, epoch: int) -> Iterator[torch.Tensor]:
        order = torch.from_numpy(np.random.default_rng([self.seed, epoch]).permutation(self.rows))
        yield from torch.split(order, self.batch_size)


def n_points(batch: Any) -> int:
    """Return the number of points in a batch."""
    if isinstance(batch, torch.Tensor):
        return int(batch.shape[0])
    return n_points(next(iter(batch.values() if isinstance(batch, dict) else batch)))


def mapped(batch: Any, change: Any) -> Any:
    """Return the batch with `change` applied to every tensor."""
    if isinstance(batch, torch.Tensor):
        return change(batch)
    if isinstance(batch, dict):
        return {name: mapped(part, change) for name, part in batch.items()}
    return type(batch)(mapped(part, change) for part in batch)


def to_device(batch: Any, device: torch.device) -> Any:
    """Return the batch with every tensor on the device."""
    return mapped(batch, lambda t: t.to(device, non_blocking=True))


def split(batch: Any, parts: int) -> list[Any]:
    """Split a batch into `parts` batches of about equal size, or fewer if it has fewer points."""
    n = n_points(batch)
    parts = min(parts, n)
    bounds = np.linspace(0, n, parts + 1).astype(int)
    return [mapped(batch, lambda t, a=a, b=b: t[a:b]) for a, b in pairwise(bounds)]
