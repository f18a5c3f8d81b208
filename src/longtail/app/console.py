"""Where the command line writes: results to stdout, everything else (messages, progress, warnings) to stderr."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

messages = Console(stderr=True, highlight=False)


def say(text: str) -> None:
    messages.print(text, markup=False, soft_wrap=True)


def fail(text: str) -> None:
    """One message about what was wrong; the caller exits with 2."""
    messages.print(f"error: {text}", markup=False, soft_wrap=True, style="red")


def print_json(value: Mapping[str, Any]) -> None:
    sys.stdout.write(json.dumps(value, ensure_ascii=False, indent=1) + "\n")


def print_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """A table on stdout: names on the left, numbers on the right."""
    table = Table(header_style="bold")
    for i, column in enumerate(columns):
        table.add_column(column, justify="left" if i == 0 else "right", no_wrap=i > 0)
    for row in rows:
        table.add_row(*row)
    _print_titled(title, table)


def print_fields(title: str, fields: Mapping[str, Any]) -> None:
    table = Table(show_header=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in fields.items():
        table.add_row(name, readable(value))
    _print_titled(title, table)


def _print_titled(title: str, table: Table) -> None:
    # Without a terminal the width is unknown, and a table that is cut at 80 columns would lose numbers.
    console = Console(width=None if sys.stdout.isatty() else 200, highlight=False, markup=False)
    console.print(title, style="bold", soft_wrap=True)
    console.print(table)


def readable(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.2f}"
    if isinstance(value, Mapping):
        return ", ".join(f"{key} = {item}" for key, item in value.items()) or "(none)"
    return str(value)


class Bars:
    """A core.run.Progress on the terminal: one bar a task, with the time left; nothing where stderr is no terminal."""

    def __init__(self) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        self._bars = Progress(
            TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("left:"),
            TimeRemainingColumn(), TextColumn("{task.fields[note]}"), console=messages, transient=True,
            disable=not messages.is_terminal,
        )  # fmt: skip

    def start(self, task: str, total: int) -> None:
        self._bars.add_task(task, total=total, note="")
        self._bars.start()

    def advance(self, amount: int = 1) -> None:
        self._bars.advance(self._bars.task_ids[-1], amount)

    def note(self, text: str) -> None:
        self._bars.update(self._bars.task_ids[-1], note=text)

    def finish(self) -> None:
        self._bars.stop()
        for task in self._bars.task_ids:
            self._bars.remove_task(task)


@contextmanager
def status(text: str) -> Iterator[None]:
    """Show that something of unknown length goes on, e.g. reading a file."""
    if not messages.is_terminal:
        yield
        return
    with messages.status(escape(text)):
        yield


class _ToMessages(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        say(f"{record.levelname.lower()}: {record.getMessage()}")


def show_warnings() -> None:
    """Send what the library logs to stderr; called by `main`, never at import."""
    logger = logging.getLogger("longtail")
    if not any(isinstance(handler, _ToMessages) for handler in logger.handlers):
        logger.addHandler(_ToMessages(logging.WARNING))
