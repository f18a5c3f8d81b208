"""What people said about suggestions, appended durably: one JSON line per text, in files that `longtail train` reads.

A line is acknowledged only after fsync. Workers append to the same file under a lock; a line that a kill or a full disk
has cut short was never acknowledged, and is removed before the next one is written.
"""

from __future__ import annotations

import asyncio
import errno
import fcntl
import json
import logging
import os
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from longtail.serve import metrics
from longtail.serve.models import Served
from longtail.serve.problems import Problem, busy

logger = logging.getLogger(__name__)

_MOST_WAITING = 100  # requests; fsync takes milliseconds, and a stalled disk must not fill the memory
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def entry(
    served: Served, text: str, source: str, *, accepted: list[str], rejected: list[str] | None = None,
    added: list[str] | None = None, document_id: str | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Return one text with feedback as it is stored.

    Parameters
    ----------
    served : Served
        Model that made the suggestions.
    text : str
        The text.
    source : str
        The request that it came by.
    accepted : list of str
        Ids of labels that are right.
    rejected : list of str or None, default None
        Ids of labels that are wrong.
    added : list of str or None, default None
        Ids of right labels that were not suggested.
    document_id : str or None, default None
        The client's own id of the text.

    Returns
    -------
    dict
        `text` and `labels` are what `longtail train` reads.
    """
    return {
        "text": text,
        "labels": list(dict.fromkeys([*accepted, *(added or [])])),
        "accepted": accepted,
        "rejected": rejected or [],
        "added": added or [],
        "id": document_id,
        "source": source,
        "model": served.id,
        "model_written": served.modified.isoformat(),
        "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
    }


class Journal:
    """Files of feedback, one per model: FOLDER/ID.jsonl.

    Parameters
    ----------
    folder : path or None
        Folder; None turns feedback off.
    """

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        self._waiting = 0
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="feedback")

    @property
    def is_on(self) -> bool:
        """Whether feedback is stored."""
        return self.folder is not None

    async def append(self, name: str, entries: list[dict[str, Any]]) -> None:
        """Store entries, all or none, and return once they are on the disk.

        Parameters
        ----------
        name : str
            Id of the model.
        entries : list of dict
            What `entry` returned.

        Raises
        ------
        Problem
            403 if feedback is off, 507 if the disk is full, 503 if it cannot be written for another reason.
        """
        if self.folder is None:
            raise Problem(403, "feedback is off; the service stores it if it is started with --feedback FOLDER")
        if not entries:
            return
        if self._waiting >= _MOST_WAITING:
            metrics.rejected.labels("feedback").inc()
            raise busy("too much feedback is waiting for the disk; try again in a moment")
        lines = b"".join(json.dumps(one).encode() + b"\n" for one in entries)
        self._waiting += 1
        try:
            loop = asyncio.get_running_loop()
            # Shielded: a request whose time is over must not cut a line short.
            await asyncio.shield(
                loop.run_in_executor(self._thread, append_durably, self.folder / f"{name}.jsonl", lines)
            )
        except OSError as error:
            logger.error("feedback was not stored: %s (%s)", self.folder / f"{name}.jsonl", error.strerror)
            metrics.rejected.labels("disk").inc()
            if error.errno in _FULL:
                raise Problem(507, "the feedback was not stored: the disk of the service is full") from error
            raise busy("the feedback was not stored: the file cannot be written; the log has the reason") from error
        finally:
            self._waiting -= 1
        metrics.feedback.labels(name).inc(len(entries))

    def close(self) -> None:
        """Wait for what is being written."""
        self._thread.shutdown()


def append_durably(file: Path, lines: bytes) -> None:
    """Append lines to a file and fsync it; after an error the file is as it was.

    Parameters
    ----------
    file : path
        File; its folder must exist.
    lines : bytes
        Whole lines.
    """
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        end = _end_of_whole_lines(descriptor)
        if end == 0:  # new, or made by a worker that came no further: its name must be on the disk before any line is
            _sync_folder(file.parent)
        try:
            written = 0
            while written < len(lines):
                written += os.pwrite(descriptor, lines[written:], end + written)
            os.fsync(descriptor)
        except OSError:
            os.ftruncate(descriptor, end)
            raise
    finally:
        os.close(descriptor)


def make_folder(folder: Path) -> None:
    """Make the folder of feedback, and those above it, so that they outlast a crash of the machine."""
    missing = [one for one in (folder, *folder.parents) if not one.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for one in missing:
        _sync_folder(one.parent)


def _end_of_whole_lines(descriptor: int) -> int:
    """Cut a line without an end, which was never acknowledged, and return the length of the file."""
    size = end = os.fstat(descriptor).st_size
    while end:
        start = max(0, end - 65536)
        place = os.pread(descriptor, end - start, start).rfind(b"\n")
        if place >= 0:
            end = start + place + 1
            break
        end = start
    if end != size:
        os.ftruncate(descriptor, end)
    return end


def _sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
