"""Ctrl-C inside compiled code."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def plain_interrupts() -> Iterator[None]:
    """A Ctrl-C just as a kernel hands its results to Python, which Numba makes a SystemError, is a Ctrl-C again."""
    try:
        yield
    except SystemError as error:
        cause: BaseException | None = error
        while isinstance(cause, SystemError):  # one for each C function that it came through
            cause = cause.__cause__
        if isinstance(cause, KeyboardInterrupt):
            raise cause from None
        raise
