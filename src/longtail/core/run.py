"""The environment of long work: where to show progress, where to keep finished parts, where parts run.

A model knows nothing about terminals, clusters or folders; it gets a `Run` and uses what is in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from longtail.core.checkpoint import Checkpoint
from longtail.core.engine import Arrays, Engine, Item, Result, Task, Threads, Work
from longtail.core.progress import Progress, Silent
from longtail.core.workspace import Workspace


@dataclass
class Run:
    """The environment of one training, an argument of `fit`.

    Parameters
    ----------
    progress : Progress, default Silent()
        Where to show progress.
    checkpoint : Checkpoint, optional
        Where to keep finished parts, so that a killed training can be resumed.
    engine : Engine, default Threads()
        Where independent parts run, e.g. `longtail.engine.ray.RayEngine("auto")`. The model does not depend on it.
    workspace : Workspace, default Workspace()
        Where large working copies of the data and finished parts of a large model are: in memory, or in files of a
        folder. The model does not depend on it.
    """

    progress: Progress = field(default_factory=Silent)
    checkpoint: Checkpoint | None = None
    engine: Engine = field(default_factory=Threads)
    workspace: Workspace = field(default_factory=Workspace)

    def shown(self, verbose: bool) -> Run:
        """Return a run that shows its progress, if asked to; one that does already stays as it is."""
        if not verbose or not isinstance(self.progress, Silent):
            return self
        from longtail.core.display import display  # here: it needs Rich

        return replace(self, progress=display())

    def part(self, name: str) -> Run:
        """Return a run for one of several models: the same but for a checkpoint inside that of this run."""
        return replace(self, checkpoint=self.checkpoint.part(name) if self.checkpoint else None)

    def map(
        self,
        work: Work,
        parts: Sequence[Any],
        *,
        shared: Any,
        name: str,
        title: str,
        sizes: Sequence[int] | None = None,
        mark: Callable[[Any], Any] = np.asarray,
        n_jobs: int | None = None,
        ahead: int | None = None,
        memory: int = 0,
        keep: bool = True,
        whole: bool = False,
    ) -> AbstractContextManager[Iterator[Arrays]]:
        """Compute independent parts, wherever the engine runs them; finished ones come from the checkpoint.

        Parameters
        ----------
        work : callable
            Top-level function of (shared, part) that returns a dict of arrays.
        parts : sequence
            Parts, small and picklable; those that take longest should come first.
        shared : object
            What all parts read and none changes, e.g. the training data; picklable.
        name : str
            Prefix of the parts in the checkpoint.
        title : str
            Name of the work in progress displays.
        sizes : sequence of int, optional
            How far each part advances the progress; 1 by default.
        mark : callable, default numpy.asarray
            Returns an array that tells a part from others that might have had its number.
        n_jobs : int, optional
            Number of threads, for engines in this process; None or -1 for all cores.
        ahead : int, optional
            Parts that may be running or waiting for the caller; see `in_threads`.
        memory : int, default 0
            Bytes that a part needs while it runs, besides what is shared.
        keep : bool, default True
            Whether the checkpoint keeps single parts. If False, the caller keeps what it makes of them.
        whole : bool, default False
            Whether what follows in the training needs all results, as it needs features: a shard then computes them
            all.

        Returns
        -------
        context manager
            Of an iterator over results, in the order of the parts.
        """
        steps = [1] * len(parts) if sizes is None else sizes
        task = Task(
            work, parts, shared, name, title, steps, mark, n_jobs, ahead, memory, keep, whole, self.checkpoint,
            self.progress,
        )  # fmt: skip
        return self.engine.results(task)

    def each(self, step: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
        """Call `step` for each item in turn; steps do not depend on each other, and may use `map`."""
        return self.engine.each(step, items)

    def together(self, *steps: Callable[[], Any]) -> list[Any]:
        """Call steps in turn that do not depend on each other, and return what they return."""
        return self.each(lambda step: step(), steps)
