"""Progress of long work."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Protocol


class Progress(Protocol):
    """What long work reports its progress to: the command line shows it, a library call shows nothing by default."""

    def start(self, task: str, total: int) -> None:
        """Begin a task.

        Parameters
        ----------
        task : str
            Short name, e.g. "predict".
        total : int
            Number of steps.
        """

    def advance(self, amount: int = 1) -> None:
        """Count `amount` more steps as done."""

    def note(self, text: str) -> None:
        """Show a few words beside the task, e.g. the loss so far; each note replaces the previous one."""

    def finish(self) -> None:
        """End the task, whether or not all steps were done."""


class Silent:
    """A `Progress` that shows nothing."""

    def start(self, task: str, total: int) -> None: ...

    def advance(self, amount: int = 1) -> None: ...

    def note(self, text: str) -> None: ...

    def finish(self) -> None: ...


@contextlib.contextmanager
def reported(progress: Progress, task: str, total: int) -> Iterator[Callable[..., None]]:
    """Report a task and end it however the work ends, so that a terminal gets its cursor back.

    Parameters
    ----------
    progress : Progress
        Where to report.
    task : str
        Short name of the task.
    total : int
        Number of steps.

    Yields
    ------
    callable
        `progress.advance`.
    """
    progress.start(task, total)
    try:
        yield progress.advance
    finally:
        progress.finish()
