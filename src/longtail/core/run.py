"""What a long piece of work is handed from outside: where to show progress, where to keep finished parts, threads.

A model knows nothing of terminals, clusters or folders; it is handed a `Run` and uses what is in it.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import logging
import os
import shutil
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np
import safetensors.numpy
from safetensors import SafetensorError, safe_open

import longtail
from longtail.core.state import Array
from longtail.errors import LongtailError, OutputError, ParameterError

try:
    import fcntl
except ImportError:  # Windows: runs are not kept apart there
    fcntl = None  # type: ignore[assignment]

logger = logging.getLogger(__name__)

_LOCK = "lock"
_DIGEST = "sha256"

Item = TypeVar("Item")
Result = TypeVar("Result")


class Progress(Protocol):
    """Where work reports how far it is; the command line shows it, a library caller sees nothing by default."""

    def start(self, task: str, total: int) -> None: ...

    def advance(self, amount: int = 1) -> None: ...

    def note(self, text: str) -> None:
        """Show a few words beside the task, e.g. the loss so far; each note replaces the one before."""

    def finish(self) -> None: ...


class Silent:
    """A Progress that shows nothing."""

    def start(self, task: str, total: int) -> None: ...

    def advance(self, amount: int = 1) -> None: ...

    def note(self, text: str) -> None: ...

    def finish(self) -> None: ...


@contextlib.contextmanager
def reported(progress: Progress, task: str, total: int) -> Iterator[Callable[..., None]]:
    """A task on a progress, which ends however the work ends: a terminal gets its cursor back. Gives `advance`."""
    progress.start(task, total)
    try:
        yield progress.advance
    finally:
        progress.finish()


def helps_another_process() -> bool:
    """Whether this process trains together with others (torchrun, accelerate) and is not the first of them.

    Only the first writes models and checkpoints; the others read what it left when a training is resumed.
    """
    return int(os.environ.get("WORLD_SIZE", "1")) > 1 and int(os.environ.get("RANK", "0")) > 0


class Checkpoint:
    """Finished parts of one job in a folder, so that a killed job can go on: `get` what is there, `put` what is new.

    The folder belongs to one job, told by its fingerprint (class, parameters, data) and the version of longtail:
    another job's parts are refused. And it belongs to one process at a time, so that parts of two runs never mix.
    """

    def __init__(self, folder: str | os.PathLike[str], *, resume: bool) -> None:
        self.folder = Path(folder)
        self.resume = resume
        self._opened = False
        self._unlock: Callable[[], Any] = lambda: None

    def open(self, job: dict[str, Any]) -> None:
        """Bind the folder to a job; with `resume` parts of the same job are kept, else the folder starts empty."""
        if helps_another_process():
            return
        identity = json.dumps({**job, "longtail": longtail.__version__}, sort_keys=True)
        file = self.folder / "job.json"
        with self._output_errors():
            if self.folder.exists() and not file.is_file() and self._foreign_files():
                raise OutputError(f"{self.folder} is in the way: it is not a folder of unfinished work")
            self.folder.mkdir(exist_ok=True)
            self._lock()
            if self.resume and file.is_file() and file.read_text(encoding="utf-8") != identity:
                raise OutputError(
                    f"{self.folder} holds unfinished work with other data, parameters or versions; "
                    "give the same ones, or start anew without --resume"
                )
            if not self.resume:
                if file.is_file():
                    logger.warning("%s holds unfinished work; starting anew (resume would go on with it)", self.folder)
                for part in self.folder.iterdir():
                    if part.is_dir():
                        shutil.rmtree(part)
                    elif part.name != _LOCK:
                        part.unlink()
            self._write(file, identity.encode())
        self._opened = True

    def _foreign_files(self) -> list[Path]:
        """What is in the folder beyond that which a run leaves that was killed just as it began."""
        return [file for file in self.folder.iterdir() if file.name not in (_LOCK, "job.tmp")]

    def _lock(self) -> None:
        """Keep other processes out; the lock goes with this process, however it ends."""
        if fcntl is None:
            return
        descriptor = os.open(self.folder / _LOCK, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(descriptor)
            if error.errno not in (errno.EACCES, errno.EAGAIN):
                return  # a file system without locks
            raise OutputError(
                f"{self.folder} is in use by another run; wait for it, or choose another place"
            ) from error
        self._unlock = weakref.finalize(self, os.close, descriptor)

    @contextlib.contextmanager
    def _output_errors(self) -> Iterator[None]:
        try:
            yield
        except LongtailError:
            raise
        except OSError as error:
            raise OutputError(f"{self.folder}: could not be written ({error.strerror or error})") from error

    def get(self, part: str) -> dict[str, Array] | None:
        """The arrays of a finished part; None where it is not finished, or no longer what `put` wrote."""
        file = self.folder / f"{part}.safetensors"
        if not file.is_file() or (helps_another_process() and not self.resume):
            return None
        try:
            with safe_open(file, "numpy") as content:
                arrays = {name: content.get_tensor(name) for name in content.keys()}  # noqa: SIM118 - no mapping
                if (content.metadata() or {}).get(_DIGEST) == _digest(arrays):
                    return arrays
        except SafetensorError:
            pass
        logger.warning("%s is damaged; this part of the work is done again", file)
        return None

    def put(self, part: str, arrays: dict[str, Array]) -> None:
        if helps_another_process():
            return
        with self._output_errors():
            content = safetensors.numpy.save(arrays, metadata={_DIGEST: _digest(arrays)})
            self._write(self.folder / f"{part}.safetensors", content)

    def part(self, name: str) -> Checkpoint:
        """A checkpoint within this one, for a job of its own that is part of this job: a model inside of a model."""
        return Checkpoint(self.folder / name, resume=self.resume)

    def holds_parts(self) -> bool:
        """Whether this job has left anything that a later one could go on from."""
        return self._opened and any(self.folder.rglob("*.safetensors"))

    def clear(self) -> None:
        """Remove the folder, if this job opened it: what `open` refused belongs to someone else."""
        if self._opened:
            shutil.rmtree(self.folder, ignore_errors=True)
            self._opened = False
        self._unlock()

    def _write(self, file: Path, content: bytes) -> None:
        temporary = file.with_suffix(".tmp")
        temporary.write_bytes(content)
        os.replace(temporary, file)


@dataclass
class Run:
    """Handed to `fit`: progress display, and the checkpoint of a job that may be resumed."""

    progress: Progress = field(default_factory=Silent)
    checkpoint: Checkpoint | None = None

    def part(self, name: str) -> Run:
        """The same progress, and a checkpoint within this run's: for one of several models that are trained."""
        return Run(self.progress, self.checkpoint.part(name) if self.checkpoint else None)


def fingerprint(*arrays: Array) -> str:
    """A short digest of arrays' contents, dtypes and shapes."""
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(f"{array.dtype}{array.shape}".encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()[:16]


def _digest(arrays: dict[str, Array]) -> str:
    """Of named arrays, whatever their order: what a part of a checkpoint must still have when it is read."""
    names = sorted(arrays)
    return fingerprint(np.frombuffer(json.dumps(names).encode(), np.uint8), *(arrays[name] for name in names))


def thread_count(n_jobs: int | None) -> int:
    """Threads to use for `n_jobs`: None or -1 means all cores that this process may run on."""
    available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if n_jobs is None or n_jobs == -1:
        return available
    if isinstance(n_jobs, bool) or not isinstance(n_jobs, (int, np.integer)) or n_jobs < 1:
        raise ParameterError(f"n_jobs is {n_jobs!r}, but must be a whole number of threads, or -1 for all cores")
    return int(n_jobs)


@contextlib.contextmanager
def in_threads(
    work: Callable[[Item], Result], items: Iterable[Item], *, n_jobs: int | None = None, ahead: int | None = None
) -> Iterator[Iterator[Result]]:
    """Results of `work(item)` in the order of the items, computed by threads (kernels release the GIL).

    At most `ahead` items are under way or waiting to be taken, twice as many as there are threads if not given, so
    results do not pile up; give more where items differ much in size. An interrupt or an error waits for the items
    that run and drops the rest.

    The threads end with the `with` block. They must not end with the results instead: a traceback may keep those, and
    then the garbage collector would wait for threads, in any thread and under any lock, which can wait forever.
    """
    threads = thread_count(n_jobs)
    if threads == 1:
        yield map(work, items)
        return
    with ThreadPoolExecutor(threads) as pool:
        queue: deque[Future[Result]] = deque()

        def results() -> Iterator[Result]:
            remaining = iter(items)
            queue.extend(pool.submit(work, item) for item in islice(remaining, ahead or 2 * threads))
            while queue:
                wait([queue[0]])  # an interrupt here leaves it in the queue
                yield queue.popleft().result()
                queue.extend(pool.submit(work, item) for item in islice(remaining, 1))

        try:
            yield results()
        finally:
            for future in queue:
                future.cancel()


def each_in_threads(work: Callable[[Item], None], items: Sequence[Item], *, n_jobs: int | None = None) -> None:
    """Call `work(item)` for each item, in no more threads than there are items."""
    with in_threads(work, items, n_jobs=min(thread_count(n_jobs), max(len(items), 1))) as calls:
        for _ in calls:
            pass
