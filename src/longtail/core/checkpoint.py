"""Checkpoints: finished parts of a job in a folder, so that a killed job can continue."""

from __future__ import annotations

import contextlib
import errno
import json
import logging
import os
import shutil
import weakref
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy
from safetensors import SafetensorError, safe_open

import longtail
from longtail.core.fingerprint import fingerprint
from longtail.core.processes import helps_another_process
from longtail.core.state import Array
from longtail.errors import LongtailError, OutputError

try:
    import fcntl
except ImportError:  # Windows: no locks between runs
    fcntl = None  # type: ignore[assignment]

logger = logging.getLogger(__name__)

_JOB = "job.json"
_LOCK = "lock"
_DIGEST = "sha256"


class Checkpoint:
    """Finished parts of one job, kept in a folder so that a killed job can continue.

    The folder belongs to one job, identified by class, parameters, data and the version of longtail: parts of another
    job are refused. It also belongs to one process at a time, so parts of two runs never mix.

    Parameters
    ----------
    folder : str or path-like
        Folder of the parts; `open` creates it inside an existing folder.
    resume : bool
        Keep the parts of an earlier run of the same job; if False, start over.
    sources : sequence of Path, default ()
        Folders of the same job that more finished parts are read from; nothing is written there.
    """

    def __init__(self, folder: str | os.PathLike[str], *, resume: bool, sources: Sequence[Path] = ()) -> None:
        self.folder = Path(folder)
        self.resume = resume
        self.sources = sources
        self._opened = False
        self._inner = False
        self._unlock: Callable[[], Any] = lambda: None

    def open(self, job: dict[str, Any]) -> None:
        """Bind the folder to a job, and empty it unless `resume` is set.

        Parameters
        ----------
        job : dict
            What identifies the job, as JSON values; see `core.job.job_of`.

        Raises
        ------
        OutputError
            If the folder holds other files or the parts of another job, is in use, or cannot be written, or if a source
            belongs to another job.
        """
        if helps_another_process():
            return
        identity = json.dumps({**job, "longtail": longtail.__version__}, sort_keys=True)
        self._check_sources(identity)
        file = self.folder / _JOB
        with self._output_errors():
            if self.folder.exists() and not file.is_file() and self._foreign_files():
                raise OutputError(f"{self.folder} exists, but is not a folder of unfinished work; move it away")
            # Of folders in between, nobody opens a checkpoint: those of a part that is not an estimator itself.
            self.folder.mkdir(exist_ok=True, parents=self._inner)
            self._lock()
            if self.resume and file.is_file():
                self._check_same_job(file, identity)
            if not self.resume:
                if file.is_file():
                    logger.warning(
                        "%s holds unfinished work; starting over (resume=True, --resume would continue it)", self.folder
                    )
                _remove_parts(self.folder)
            self._write(file, identity.encode())
        self._opened = True

    def _check_same_job(self, file: Path, identity: str) -> None:
        """Raise OutputError if the unfinished work is that of another job; say so if there is none yet."""
        found = file.read_bytes()
        if found != identity.encode():
            try:
                json.loads(found)
            except (ValueError, RecursionError) as error:
                raise OutputError(f"{file} is damaged; start over without --resume") from error
            raise OutputError(
                f"{self.folder} holds unfinished work with other data, parameters or versions; "
                "use the same ones, or start over without --resume"
            )
        if not self._inner and not any(self.folder.rglob("*.safetensors")):
            logger.warning("%s holds no finished parts yet; starting from the beginning", self.folder)

    def _check_sources(self, identity: str) -> None:
        """Raise OutputError for sources of another job; one that has none of the parts has no job either."""
        for source in self.sources:
            file = source / _JOB
            if not file.is_file() and any(source.glob("*.safetensors")):
                raise OutputError(f"{source} does not say whose its parts are: {_JOB} is missing; make it again")
            if file.is_file() and file.read_bytes() != identity.encode():
                raise OutputError(
                    f"{source} belongs to another training: its data, parameters or version of longtail differ; make "
                    "it again with the same ones"
                )

    def _foreign_files(self) -> list[Path]:
        """Return the files that are not left over from a run that was killed right at its start."""
        return [file for file in self.folder.iterdir() if file.name not in (_LOCK, "job.tmp")]

    def _lock(self) -> None:
        """Keep other processes out; the lock ends with this process, however it ends."""
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
                f"{self.folder} is in use by another run; wait for it, or choose another output path"
            ) from error
        self._unlock = weakref.finalize(self, os.close, descriptor)

    @contextlib.contextmanager
    def _output_errors(self) -> Iterator[None]:
        """Turn errors of the file system into OutputError."""
        try:
            yield
        except LongtailError:
            raise
        except OSError as error:
            raise OutputError(f"{self.folder}: could not be written ({error.strerror or error})") from error

    def get(self, part: str) -> dict[str, Array] | None:
        """Return the arrays of a finished part.

        Parameters
        ----------
        part : str
            Name that the part was stored under.

        Returns
        -------
        dict of str to ndarray, or None
            None if the part is not finished, or its file is damaged.
        """
        if helps_another_process() and not self.resume:
            return None
        files = [folder / f"{part}.safetensors" for folder in (self.folder, *self.sources)]
        return next((arrays for file in files if file.is_file() and (arrays := self._read(file)) is not None), None)

    def _read(self, file: Path) -> dict[str, Array] | None:
        try:
            with safe_open(file, "numpy") as content:
                arrays = {name: content.get_tensor(name) for name in content.keys()}  # noqa: SIM118 - no mapping
                if (content.metadata() or {}).get(_DIGEST) == _digest(arrays):
                    return arrays
        except (SafetensorError, OSError, ValueError, TypeError, KeyError):  # the last: types that NumPy lacks
            pass
        logger.warning("%s is damaged; repeating this part of the work", file)
        return None

    def put(self, part: str, arrays: dict[str, Array]) -> None:
        """Store the arrays of a finished part.

        Parameters
        ----------
        part : str
            Name of the part, used as a file name.
        arrays : dict of str to ndarray
            Result of the part.
        """
        if helps_another_process():
            return
        with self._output_errors():
            content = safetensors.numpy.save(arrays, metadata={_DIGEST: _digest(arrays)})
            self._write(self.folder / f"{part}.safetensors", content)

    def part(self, name: str) -> Checkpoint:
        """Return a checkpoint inside this one, for a model that is trained as part of this job."""
        inner = Checkpoint(self.folder / name, resume=self.resume, sources=[source / name for source in self.sources])
        inner._inner = True
        return inner

    def holds_parts(self) -> bool:
        """Return whether this job has stored anything that a later run could continue from."""
        return self._opened and any(self.folder.rglob("*.safetensors"))

    def clear(self) -> None:
        """Remove the folder if it belongs to this job; a folder that `open` refused belongs to someone else."""
        if self._opened or self._inner:
            with contextlib.suppress(OSError):
                _remove_parts(self.folder)
            shutil.rmtree(self.folder, ignore_errors=True)
            self._opened = False
        self._unlock()

    def _write(self, file: Path, content: bytes) -> None:
        temporary = file.with_suffix(".tmp")
        temporary.write_bytes(content)
        os.replace(temporary, file)


def _remove_parts(folder: Path) -> None:
    """Remove all but the files that say whose the folder is.

    Folders of parts lose these files last, too: a kill meanwhile must not leave a folder that `open` would refuse.
    """
    for part in folder.iterdir():
        if part.is_dir() and not part.is_symlink():
            _remove_parts(part)
            shutil.rmtree(part)
        elif part.name not in (_JOB, _LOCK):
            part.unlink()


def _digest(arrays: dict[str, Array]) -> str:
    """Return a digest of named arrays, independent of their order."""
    names = sorted(arrays)
    return fingerprint(np.frombuffer(json.dumps(names).encode(), np.uint8), *(arrays[name] for name in names))
