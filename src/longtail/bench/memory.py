"""Memory of this process, in bytes. `resident` and `reset_peak` need Linux."""

from __future__ import annotations

import resource
from pathlib import Path

_STATUS = Path("/proc/self/status")


def resident() -> int:
    """Return the resident memory."""
    return _status("VmRSS")


def peak() -> int:
    """Return the peak of the resident memory.

    Not ru_maxrss where it can be avoided: on Linux that begins with what the parent process held.
    """
    if _STATUS.is_file():
        return _status("VmHWM")
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def reset_peak() -> None:
    """Forget the peak so far, e.g. that of making the data."""
    Path("/proc/self/clear_refs").write_text("5")


def _status(entry: str) -> int:
    for line in _STATUS.read_text().splitlines():
        if line.startswith(f"{entry}:"):
            return int(line.split()[1]) * 1024
    raise LookupError(entry)
