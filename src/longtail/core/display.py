"""Progress that people see: bars in a terminal or a notebook, lines in a file or a pipe."""

from __future__ import annotations

import time

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as RichProgress

from longtail.core.plain import plain
from longtail.core.progress import Progress

_LINE_SECONDS = 30.0


def display(console: Console | None = None) -> Progress:
    """Return a display of progress.

    Parameters
    ----------
    console : rich.console.Console, optional
        Where to show it; stderr by default, or the output of the cell in a notebook.

    Returns
    -------
    Progress
    """
    console = console or Console(stderr=True, highlight=False)
    return Bars(console) if console.is_terminal or console.is_jupyter else Lines(console)


class Bars:
    """One bar per task, with the time left."""

    def __init__(self, console: Console) -> None:
        self._bars = RichProgress(
            TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TextColumn("left:"),
            TimeRemainingColumn(), TextColumn("{task.fields[note]}", markup=False), console=console, transient=True,
        )  # fmt: skip

    def start(self, task: str, total: int) -> None:
        self._bars.add_task(plain(task), total=total, note="")
        self._bars.start()

    def advance(self, amount: int = 1) -> None:
        self._bars.advance(self._bars.task_ids[-1], amount)

    def note(self, text: str) -> None:
        self._bars.update(self._bars.task_ids[-1], note=plain(text))

    def finish(self) -> None:
        self._bars.stop()
        for task in self._bars.task_ids:
            self._bars.remove_task(task)


class Lines:
    """One line every half minute; short tasks print nothing. From the second line on it has the time left, at the pace
    since the previous line: steps that a resumed run finds done take no time."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def start(self, task: str, total: int) -> None:
        self._task, self._total, self._done, self._note = task, total, 0, ""
        self._shown_at, self._shown_done = time.monotonic(), -1

    def advance(self, amount: int = 1) -> None:
        self._done += amount
        seconds = time.monotonic() - self._shown_at
        if seconds < _LINE_SECONDS:
            return
        line = f"{self._task}: {self._done:,} of {self._total:,}"
        if self._shown_done >= 0:
            left = seconds / max(self._done - self._shown_done, 1) * (self._total - self._done)
            line += f", about {_duration(left)} left"
        line += f"; {self._note}" if self._note else ""
        self._console.print(plain(line), markup=False, emoji=False, soft_wrap=True)
        self._shown_at, self._shown_done = time.monotonic(), self._done

    def note(self, text: str) -> None:
        self._note = text

    def finish(self) -> None: ...


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
