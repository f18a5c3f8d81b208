"""Where long work reports how far it is."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Protocol


class Progress(Protocol):
    """Where work reports how far it is; the command line shows it, a library caller sees nothing by default."""

    def start(self, task: str, total: int) -> None: ...

    def advance(self, amount: int = 1) -> None: ...

    def note(self, text: str) -> None:
        """Show a few words beside the task, e.g. the loss so far; each note replaces the one before."""

    def finish(self) -> None: ...


class Silent:
    """A Progress that shows nothing."""

    def start(self, task: str, total: int) -> None: ...

    def advance(self, amount: int = 1) -> None: ...

    def note(self, text: str) -> None: ...

    def finish(self) -> None: ...


@contextlib.contextmanager
def reported(progress: Progress, task: str, total: int) -> Iterator[Callable[..., None]]:
    """A task on a progress, which ends however the work ends: a terminal gets its cursor back. Gives `advance`."""
    progress.start(task, total)
    try:
        yield progress.advance
    finally:
        progress.finish()
