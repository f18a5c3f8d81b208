"""Training groups of labels in threads, whatever solver each of them needs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from longtail.core.progress import reported
from longtail.core.run import Run
from longtail.core.threads import in_threads
from longtail.linear.options import TrainedBlock


class LabelTrainer(Protocol):
    """Trains some labels: `BlockSolver` on all points, `WorkingSetSolver` on a few."""

    def train(self, labels: NDArray[np.intp], *, duals: sparse.csr_matrix | None = None) -> TrainedBlock: ...


@dataclass(frozen=True, eq=False)
class Group:
    """Labels that are trained, and kept in a checkpoint, together."""

    labels: NDArray[np.intp]
    trainer: LabelTrainer


def train_groups(
    groups: Sequence[Group],
    keep: Callable[[NDArray[np.intp], TrainedBlock], None],
    *,
    run: Run,
    n_jobs: int | None,
    duals: sparse.csr_matrix | None = None,
) -> None:
    """Train groups in threads; read finished ones from the run's checkpoint and write new ones to it.

    Parameters
    ----------
    groups : sequence of Group
        Those that take longest should come first.
    keep : callable
        Called as `keep(labels, trained)` for each group, in order.
    run : Run
        Progress and checkpoint.
    n_jobs : int or None
        Number of threads.
    duals : (L, n) csr_matrix, optional
        Dual variables to start from; zero by default.
    """

    def work(number: int) -> TrainedBlock:
        labels, checkpoint = groups[number].labels, run.checkpoint
        saved = checkpoint.get(f"block-{number:06d}") if checkpoint else None
        # Blocks depend on similarities in floating point: another machine may cut them differently.
        if saved is not None and np.array_equal(saved["labels"], labels):
            return TrainedBlock.from_arrays(saved)
        trained = groups[number].trainer.train(labels, duals=None if duals is None else duals[labels])
        if checkpoint:
            checkpoint.put(f"block-{number:06d}", trained.to_arrays() | {"labels": labels})
        return trained

    n_labels = sum(group.labels.size for group in groups)
    with (
        reported(run.progress, "training labels", n_labels) as advance,
        in_threads(work, range(len(groups)), n_jobs=n_jobs) as results,
    ):
        for group, trained in zip(groups, results, strict=True):
            keep(group.labels, trained)
            advance(group.labels.size)
