"""Standard streams that may be closed, full or a broken pipe, and signals that stop the process.

| how a command ends | exit code |
| --- | --- |
| done | 0 |
| a fault of longtail | 1 |
| wrong input, or output that cannot be written (a full or closed stdout, too) | 2 |
| Ctrl-C | 130 |
| SIGHUP, SIGTERM | 129, 143 |
| the program that reads stdout has ended | 141 |
"""

from __future__ import annotations

import errno
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from longtail.errors import OutputError

CLOSED_PIPE = 141  # 128 + SIGPIPE, as a shell reports it for other programs


class Stopped(KeyboardInterrupt):
    """SIGTERM or SIGHUP, raised where a Ctrl-C would be.

    Parameters
    ----------
    number : int
        Number of the signal.
    """

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


@contextmanager
def stopping() -> Iterator[list[int]]:
    """Raise `Stopped` in the main thread when SIGTERM or SIGHUP arrives, unless the process ignores them (nohup).

    Yields
    ------
    list of int
        Numbers of the signals that have arrived; at most one.
    """
    received: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield received
        return
    wanted = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    ours = [number for number in wanted if signal.getsignal(number) is signal.SIG_DFL]

    def stop(number: int, _frame: Any) -> None:
        for other in ours:
            signal.signal(other, signal.SIG_IGN)  # a second one must not break the tidying up
        received.append(number)
        raise Stopped(number)

    for number in ours:
        signal.signal(number, stop)
    try:
        yield received
    finally:
        for number in ours:
            signal.signal(number, signal.SIG_DFL)


@contextmanager
def safe_streams() -> Iterator[None]:
    """Turn failures to write to stdout into errors of longtail; stderr never fails."""
    before = sys.stdout, sys.stderr
    with suppress(OSError):
        # Where a standard stream is closed, the next file that is opened would take its place, and be written to.
        while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
            pass
        os.close(descriptor)
    for stream in before:
        if hasattr(stream, "reconfigure"):  # characters that the terminal does not have, file names that are no text
            stream.reconfigure(errors="backslashreplace")
    sys.stdout, sys.stderr = _Stdout(before[0]), before[1] or _Nowhere()
    try:
        yield
        sys.stdout.flush()
    finally:
        sys.stdout, sys.stderr = before


class _Stdout:
    """Stdout whose failures are an OutputError, or a quiet exit if nobody reads it any more."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    @property
    def buffer(self) -> _Stdout:
        """The same for bytes."""
        return _Stdout(None if self._stream is None else self._stream.buffer)

    def write(self, text: str | bytes) -> int:
        if self._stream is None:
            raise OutputError("stdout is closed, so the result cannot be shown")
        try:
            return int(self._stream.write(text))
        except OSError as error:
            raise self._failure(error) from error

    def flush(self) -> None:
        try:
            if self._stream is not None:
                self._stream.flush()
        except OSError as error:
            raise self._failure(error) from error

    def isatty(self) -> bool:
        return self._stream is not None and bool(self._stream.isatty())

    def _failure(self, error: OSError) -> BaseException:
        with suppress(OSError, ValueError, AttributeError):
            # Python writes what is left once more when it ends; that must not fail again.
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self._stream.fileno())
            os.close(nowhere)
        if error.errno in (errno.EPIPE, errno.ESHUTDOWN):
            return SystemExit(CLOSED_PIPE)
        return OutputError(f"stdout could not be written ({error.strerror or error})")

    def __getattr__(self, name: str) -> Any:
        return getattr(_Nowhere() if self._stream is None else self._stream, name)


class _Nowhere:
    """Stderr of a process that has none."""

    encoding = "utf-8"

    def write(self, text: str) -> int:
        return len(text)

    def flush(self) -> None: ...

    def isatty(self) -> bool:
        return False
