"""What tests on a real Ray cluster share: parts to compute, processes to look at and to wait for."""

from __future__ import annotations

import time
from pathlib import Path

from longtail.core.progress import Silent
from longtail.core.run import Run

STORE = 80_000_000  # bytes of an object store, the least that Ray takes


def mapped(engine, work, parts, shared=None, checkpoint=None, progress=None, **options) -> list:
    """Compute parts on the cluster and return the array "x" of each as a list."""
    run = Run(progress or Silent(), checkpoint, engine)
    with run.map(work, parts, shared=shared, name="p", title="parts", **options) as results:
        return [arrays["x"].tolist() for arrays in results]


def until(condition, message: str, seconds: float = 60) -> None:
    """Wait for a condition."""
    ends = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < ends, message
        time.sleep(0.1)


def processes_of(session: str) -> list[str]:
    """Return the command lines of all processes that mention the folder of a session of Ray."""
    found = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = file.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        found += [line] if session in line else []
    return found


def workers_of(session: str) -> list[int]:
    """Return the processes that compute parts at this moment, below a node of this session of Ray."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if not (folder / "cmdline").read_bytes().startswith(b"ray::compute_parts"):
                continue
            parent = (folder / "status").read_text().partition("PPid:")[2].split()[0]
            if session.encode() in Path("/proc", parent, "cmdline").read_bytes():
                found.append(int(folder.name))
        except OSError:  # it has just ended
            continue
    return found
