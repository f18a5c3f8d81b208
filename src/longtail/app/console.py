"""Output of the command line: results to stdout, everything else (messages, progress, warnings) to stderr."""

from __future__ import annotations

import json
import logging
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from longtail.core.plain import plain, plain_json

if TYPE_CHECKING:  # it imports NumPy, which `--help` must not
    from longtail.core.progress import Progress

messages = Console(stderr=True, highlight=False, emoji=False)


_quiet = False
_NUMBER = re.compile(r"[-–]|[-+]?[\d.,]+( ?%| ?s| ?MB)?|[-+]?inf|nan")


def say(text: str) -> None:
    """Print a message to stderr; after --quiet only warnings."""
    if not _quiet or text.startswith("warning:"):
        _print(text)


def be_quiet() -> None:
    """Leave out messages and progress; warnings, errors and results stay."""
    global _quiet
    _quiet = True


def be_verbose() -> None:
    """Show what the library logs as information, too."""
    logger = logging.getLogger("longtail")
    logger.setLevel(logging.INFO)
    for handler in logger.handlers:
        if isinstance(handler, _ToMessages):
            handler.setLevel(logging.INFO)


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
    """Print a table to stdout: columns of numbers aligned right, and never wrapped; the others left."""
    table, rows = Table(header_style="bold"), list(rows)
    for i, column in enumerate(columns):
        numbers = i > 0 and all(_NUMBER.fullmatch(row[i]) for row in rows)
        table.add_column(plain(column), justify="right" if numbers else "left", no_wrap=numbers, overflow="fold")
    for row in rows:
        table.add_row(*map(plain, row))
    _print_titled(title, table)


def print_fields(title: str, fields: Mapping[str, Any]) -> None:
    """Print named values to stdout, one per row."""
    print_sections(title, [{name: readable(value) for name, value in fields.items()}])


def print_sections(title: str, sections: Iterable[Mapping[str, str]]) -> None:
    """Print named texts to stdout, one per row, with a line between sections."""
    table = Table(show_header=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for section in sections:
        for name, value in section.items():
            table.add_row(plain(name), plain(value, longest=100_000))
        table.add_section()
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
    from longtail.core.display import display
    from longtail.core.progress import Silent

    return Silent() if _quiet else display(messages)


@contextmanager
def status(text: str) -> Iterator[None]:
    """Show on a terminal that work of unknown length is running, e.g. reading a file."""
    if _quiet or not messages.is_terminal:
        yield
        return
    with messages.status(escape(plain(text))):
        yield


@contextmanager
def compiling_announced() -> Iterator[None]:
    """Say once, inside the block, that kernels are being compiled, if the first of them is not in Numba's cache."""
    from numba.core import event

    class FirstOne(event.Listener):  # type: ignore[misc]
        told = False

        def on_start(self, event: Any) -> None:
            if not self.told:
                self.told = True
                say("compiling kernels for this machine, once; later runs find them in Numba's cache")

        def on_end(self, event: Any) -> None: ...

    listener = FirstOne()
    event.register("numba:compile", listener)
    try:
        yield
    finally:
        event.unregister("numba:compile", listener)


class _OfOthers(logging.Handler):
    """Warnings of other libraries, which may quote a file as it is, control characters included."""

    def emit(self, record: logging.LogRecord) -> None:
        if not record.name.startswith("longtail"):
            say(f"{record.levelname.lower()}: {record.getMessage()}")


class _ToMessages(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        say(f"{record.levelname.lower()}: {record.getMessage()}")


def show_warnings() -> None:
    """Send the warnings of longtail and of other libraries to stderr, escaped; called by `main`, never at import."""
    global _quiet
    _quiet = False
    logger = logging.getLogger("longtail")
    logger.setLevel(logging.NOTSET)
    if not any(isinstance(handler, _ToMessages) for handler in logger.handlers):
        logger.addHandler(_ToMessages(logging.WARNING))
    root = logging.getLogger()
    if not any(isinstance(handler, _OfOthers) for handler in root.handlers):
        root.addHandler(_OfOthers(logging.WARNING))
    # One line per URI, about writing RDF, which longtail does not do.
    logging.getLogger("rdflib.term").setLevel(logging.ERROR)
