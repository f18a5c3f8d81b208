"""Training groups of labels, whatever solver each of them needs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from longtail.core.run import Run
from longtail.linear.options import TrainedBlock


class LabelTrainer(Protocol):
    """Trains some labels: `BlockSolver` on all points, `WorkingSetSolver` on a few."""

    def train(self, labels: NDArray[np.intp], *, duals: sparse.csr_matrix | None = None) -> TrainedBlock: ...

    def memory(self) -> int:
        """Return the bytes that training some labels takes, besides the training data."""


@dataclass(frozen=True, eq=False)
class Group:
    """Labels that are trained, and kept in a checkpoint, together; `solver` is a place in `Solvers.trainers`."""

    labels: NDArray[np.intp]
    solver: int


@dataclass(frozen=True, eq=False)
class Solvers:
    """What all groups share: the training data in the form of each solver, and dual variables to start from."""

    trainers: Sequence[LabelTrainer]
    duals: sparse.csr_matrix | None = None  # (labels, points)


def train_group(solvers: Solvers, group: Group) -> dict[str, NDArray[Any]]:
    """Train the labels of a group."""
    duals = None if solvers.duals is None else solvers.duals[group.labels]
    return solvers.trainers[group.solver].train(group.labels, duals=duals).to_arrays()


def train_groups(
    solvers: Solvers,
    groups: Sequence[Group],
    keep: Callable[[NDArray[np.intp], TrainedBlock], None],
    *,
    run: Run,
    n_jobs: int | None,
) -> None:
    """Train groups; finished ones come from the run's checkpoint, which keeps new ones.

    Parameters
    ----------
    solvers : Solvers
        What the groups share.
    groups : sequence of Group
        Those that take longest should come first.
    keep : callable
        Called as `keep(labels, trained)` for each group, in order.
    run : Run
        Progress, checkpoint and engine.
    n_jobs : int or None
        Number of threads.
    """
    with run.map(
        train_group, groups, shared=solvers, name="block", title="training labels",
        sizes=[group.labels.size for group in groups], mark=lambda group: group.labels, n_jobs=n_jobs,
        memory=max((trainer.memory() for trainer in solvers.trainers), default=0),
    ) as results:  # fmt: skip
        for group, arrays in zip(groups, results, strict=True):
            keep(group.labels, TrainedBlock.from_arrays(arrays))
