"""Output of the command line: results to stdout, everything else (messages, progress, warnings) to stderr."""

from __future__ import annotations

import json
import logging
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from longtail.app.plain import plain, plain_json

if TYPE_CHECKING:  # it imports NumPy, which `--help` must not
    from longtail.core.progress import Progress

messages = Console(stderr=True, highlight=False, emoji=False)
_LINE_SECONDS = 30.0


def say(text: str) -> None:
    """Print a message to stderr."""
    _print(text)


def fail(text: str) -> None:
    """Print an error message; the caller exits with 2."""
    _print(f"error: {text}", style="red")


def _print(text: str, style: str | None = None) -> None:
    with suppress(OSError):  # a terminal that is gone, or a full disk behind 2>: no reason to stop
        messages.print(plain(text), markup=False, soft_wrap=True, style=style)


def traceback(error: BaseException) -> None:
    """Print the traceback of an error to stderr."""
    from traceback import format_exception

    for line in "".join(format_exception(error)).splitlines():
        _print(line)


def print_text(text: str) -> None:
    """Print a text to stdout."""
    sys.stdout.write(f"{text}\n")


def print_json(value: Mapping[str, Any]) -> None:
    """Print one JSON object to stdout."""
    sys.stdout.write(plain_json(json.dumps(value, ensure_ascii=False, indent=1)) + "\n")


def print_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table to stdout: the first column aligned left, the others right."""
    table = Table(header_style="bold")
    for i, column in enumerate(columns):
        table.add_column(plain(column), justify="left" if i == 0 else "right", no_wrap=i > 0)
    for row in rows:
        table.add_row(*map(plain, row))
    _print_titled(title, table)


def print_fields(title: str, fields: Mapping[str, Any]) -> None:
    """Print named values to stdout, one per row."""
    table = Table(show_header=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in fields.items():
        table.add_row(plain(name), plain(readable(value), longest=100_000))
    _print_titled(title, table)


def _print_titled(title: str, table: Table) -> None:
    # Without a terminal the width is unknown, and a table cut at 80 columns would lose numbers.
    console = Console(width=None if sys.stdout.isatty() else 200, highlight=False, markup=False, emoji=False)
    console.print(plain(title), style="bold", soft_wrap=True)
    console.print(table)


def readable(value: Any) -> str:
    """Return a value as text for people: yes or no, thousands separators, two decimals."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.2f}"
    if isinstance(value, Mapping):
        return ", ".join(f"{key} = {item}" for key, item in value.items()) or "(none)"
    return str(value)


def progress() -> Progress:
    """Return a progress display: bars on a terminal, lines in a file or a pipe."""
    return _Bars() if messages.is_terminal else _Lines()


class _Bars:
    """One bar per task, with the time left."""

    def __init__(self) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        self._bars = Progress(
            TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TextColumn("left:"),
            TimeRemainingColumn(), TextColumn("{task.fields[note]}", markup=False), console=messages, transient=True,
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


class _Lines:
    """One line every half minute; short tasks print nothing. From the second line on it has the time left, at the pace
    since the previous line: steps that a resumed run finds done take no time."""

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
        say(line + (f"; {self._note}" if self._note else ""))
        self._shown_at, self._shown_done = time.monotonic(), self._done

    def note(self, text: str) -> None:
        self._note = text

    def finish(self) -> None: ...


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


@contextmanager
def status(text: str) -> Iterator[None]:
    """Show on a terminal that work of unknown length is running, e.g. reading a file."""
    if not messages.is_terminal:
        yield
        return
    with messages.status(escape(plain(text))):
        yield


class _ToMessages(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        say(f"{record.levelname.lower()}: {record.getMessage()}")


def show_warnings() -> None:
    """Send the warnings that the library logs to stderr; called by `main`, never at import."""
    logger = logging.getLogger("longtail")
    if not any(isinstance(handler, _ToMessages) for handler in logger.handlers):
        logger.addHandler(_ToMessages(logging.WARNING))
