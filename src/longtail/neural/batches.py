"""Batches of points: what the trainer asks of whoever makes them, and the plain shuffled kind."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
import torch


class Batches(Protocol):
    """The batches of an epoch: tensors, or tuples, lists or dicts of tensors, whose first dimension is the points."""

    def __len__(self) -> int:
        """Batches of an epoch."""

    def epoch(self, epoch: int) -> Iterable[Any]:
        """The batches of one epoch; the same ones whenever they are asked for."""


class ShuffledRows:
    """Row numbers of points, in a new order every epoch; the module looks its points up itself.

    For data that lie on the device as a whole (see `DeviceCsr`), so that only row numbers travel.
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
    """Points of a batch."""
    if isinstance(batch, torch.Tensor):
        return int(batch.shape[0])
    return n_points(next(iter(batch.values() if isinstance(batch, dict) else batch)))


def mapped(batch: Any, change: Any) -> Any:
    """The batch with every tensor changed."""
    if isinstance(batch, torch.Tensor):
        return change(batch)
    if isinstance(batch, dict):
        return {name: mapped(part, change) for name, part in batch.items()}
    return type(batch)(mapped(part, change) for part in batch)


def to_device(batch: Any, device: torch.device) -> Any:
    return mapped(batch, lambda t: t.to(device, non_blocking=True))


def split(batch: Any, parts: int) -> list[Any]:
    """The batch in `parts` batches of about equal size, fewer if it has fewer points."""
    n = n_points(batch)
    parts = min(parts, n)
    bounds = np.linspace(0, n, parts + 1).astype(int)
    return [mapped(batch, lambda t, a=a, b=b: t[a:b]) for a, b in pairwise(bounds)]
