"""What a Ray worker does: receive what a task shares, once, and compute some of its parts."""

from __future__ import annotations

import platform
import socket
import time
from typing import Any

import longtail
from longtail.core.engine import Arrays, Work
from longtail.core.threads import limit_threads
from longtail.engine.transport import unpack
from longtail.errors import EngineError, LongtailError, TrainingError

# What the last task shared, by its key: the parts of a task reach a worker one after another.
_held: tuple[str, Any] | None = None


def versions() -> dict[str, str]:
    """Return what the machines of a cluster must have in common."""
    return {"Python": platform.python_version(), "longtail": longtail.__version__}


def node_name() -> str:
    """Return a name of this machine for messages."""
    return socket.gethostname()


def compute_parts(
    key: str, wanted: dict[str, str], content: bytes, references: list[Any], work: Work, parts: list[Any]
) -> tuple[list[Arrays], float]:
    """Compute parts of a task and return their results and the seconds that they took.

    Parameters
    ----------
    key : str
        Identifies what the parts share.
    wanted : dict of str to str
        Versions of the driver.
    content : bytes
        What the parts share, without its large arrays.
    references : list
        References to these.
    work : callable
        Function of (shared, part).
    parts : list
        Parts.
    """
    global _held
    if versions() != wanted:
        raise EngineError(
            f"node {node_name()} has {described(versions())}, but the driver has {described(wanted)}; install the same "
            "on all nodes, and resume"
        )
    if _held is None or _held[0] != key:
        limit_threads(1)  # Ray gives a task one CPU
        _held = None  # frees the arrays of the last task before those of this one arrive
        _held = key, _received(content, references)
    started = time.perf_counter()
    try:
        results = [work(_held[1], part) for part in parts]
    except LongtailError:
        raise
    except Exception as error:
        raise TrainingError(f"a part failed on node {node_name()}: {type(error).__name__}: {error}") from error
    return results, time.perf_counter() - started


def described(found: dict[str, str]) -> str:
    """Return versions as text."""
    return ", ".join(f"{name} {version}" for name, version in found.items())


def _received(content: bytes, references: list[Any]) -> Any:
    import ray

    try:
        return unpack(content, ray.get(references))
    except FileNotFoundError as error:
        raise EngineError(
            f"node {node_name()} does not see {error.filename}, which the data is mapped from, or sees another file by "
            "that name; put it where all nodes see it under the same path, or give the data as a file, which is read "
            "and sent"
        ) from error
