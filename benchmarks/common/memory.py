"""Memory of this process, in bytes (Linux)."""

from __future__ import annotations

from pathlib import Path


def resident() -> int:
    """Return the resident memory."""
    return _status("VmRSS")


def peak() -> int:
    """Return the peak of the resident memory. Not getrusage: its maximum is inherited from the parent process."""
    return _status("VmHWM")


def reset_peak() -> None:
    """Forget the peak so far, e.g. that of making the data."""
    Path("/proc/self/clear_refs").write_text("5")


def _status(entry: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{entry}:"):
            return int(line.split()[1]) * 1024
    raise LookupError(entry)
