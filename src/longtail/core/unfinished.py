"""Files and folders under temporary names: each is locked by the process that writes it.

The lock ends with its process, however that ends. So whoever writes to the same place next can tell what a killed
process left, which it removes, from what another process is writing at this moment, which it leaves alone.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from longtail.errors import OutputError

try:
    import fcntl
except ImportError:  # Windows: no such locks, so nothing is ever taken for dead
    fcntl = None  # type: ignore[assignment]

_TOKEN = "[0-9a-f]{8}"
_COPIES = re.compile(f"longtail-{_TOKEN}")
_ADDRESS = re.compile("[a-zA-Z][a-zA-Z0-9+.-]+:/")  # of which `Path` has made one slash
_ROOM = len("..01234567.tmp")  # what a temporary name has more than the name itself


def check_place(path: Path) -> None:
    """Raise OutputError if no file or folder can be made or replaced at `path`; call it before long work.

    Parameters
    ----------
    path : Path
        File or folder to write.
    """
    if _ADDRESS.match(str(path)) and not path.parent.is_dir():
        raise OutputError(f"{path}: results are written to local folders only; choose one, and copy the result there")
    if not path.parent.is_dir():
        raise OutputError(f"{path}: the folder {path.parent} does not exist")
    if not os.access(path.parent, os.W_OK):
        raise OutputError(f"{path}: no permission to write to the folder {path.parent}")
    if path.is_dir() and not os.access(path, os.W_OK):
        raise OutputError(f"{path}: no permission to write to this folder")
    if path.is_symlink() and not path.exists():
        raise OutputError(f"{path} is a symbolic link that leads nowhere; remove it, or choose another output path")
    if _is_special(path):
        raise OutputError(f"{path} is a device, a pipe or a socket, not a file; choose another output path")
    longest = _longest_name(path.parent)
    if len(os.fsencode(path.name)) > longest:
        raise OutputError(f"{path}: the name has more than {longest} bytes; choose a shorter one")


def _is_special(path: Path) -> bool:
    """Return whether something that is neither a file nor a folder would be replaced, as /dev/null or /dev/stdout."""
    if path.is_symlink() and os.readlink(path).startswith("/proc/"):
        return True
    return path.exists() and not path.is_file() and not path.is_dir()


def _longest_name(folder: Path) -> int:
    """Return how many bytes a name may have in this folder, so that its temporary name is valid, too."""
    try:
        return os.pathconf(folder, "PC_NAME_MAX") - _ROOM
    except (AttributeError, OSError, ValueError):
        return 255 - _ROOM


@contextmanager
def unfinished(name: Callable[[str], Path], *, folder: bool = False) -> Iterator[Path]:
    """Make an empty file or folder under a new name, and hold its lock while the block runs.

    Parameters
    ----------
    name : callable
        Function from a random token to a path.
    folder : bool, default False
        Make a folder.

    Yields
    ------
    Path
        The new file or folder; the block renames or removes it.
    """
    while True:
        path = name(secrets.token_hex(4))
        if folder:
            path.mkdir()
        else:
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666))
        lock = None
        try:
            lock = _locked(path)
            # Another process may have taken it for dead and removed it before it was locked; then make another.
            if path.exists():
                yield path
                return
        finally:
            if lock is not None:
                os.close(lock)


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """Make a folder for copies in the system's temporary folder, and remove it after the block.

    Those that killed processes of this user left are removed first.

    Yields
    ------
    Path
        The folder, which only this user can read.
    """
    place = Path(tempfile.gettempdir())
    with contextlib.suppress(OSError):  # a folder that cannot be listed
        remove_dead(path for path in place.iterdir() if _COPIES.fullmatch(path.name) and _is_own_folder(path))
    with unfinished(lambda token: place / f"longtail-{token}", folder=True) as folder:
        folder.chmod(0o700)
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def _is_own_folder(path: Path) -> bool:
    """Return whether a name in a folder that all users share is a folder of this user."""
    with contextlib.suppress(OSError, AttributeError):  # it is gone; Windows, whose temporary folder is the user's own
        found = path.lstat()
        return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid()
    return False


def temporary_name(path: Path) -> Callable[[str], Path]:
    """Return the names under which `path` is written: hidden files beside it."""
    return lambda token: path.with_name(f".{path.name}.{token}.tmp")


def remove_dead_temporaries(path: Path) -> None:
    """Remove what killed processes left under the names of `temporary_name(path)`."""
    ours = re.compile(rf"\.{re.escape(path.name)}\.{_TOKEN}\.tmp")
    with contextlib.suppress(OSError):  # a folder that cannot be listed
        remove_dead(file for file in path.parent.iterdir() if ours.fullmatch(file.name))


def remove_dead(paths: Iterable[Path], *, unless: Callable[[Path], bool] = lambda _: False) -> None:
    """Remove the files and folders that no process has locked; one that cannot be locked or removed stays.

    Parameters
    ----------
    paths : iterable of Path
        Files and folders that `unfinished` made.
    unless : callable, optional
        Whether a file is in use although its writer is gone; asked while the file is locked.
    """
    for path in paths:
        lock = _locked(path)
        if lock is None:
            continue
        try:
            if unless(path):
                continue
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                with contextlib.suppress(OSError):
                    path.unlink()
        finally:
            os.close(lock)


def _locked(path: Path) -> int | None:
    """Return a descriptor that holds the lock of a file or folder; None if it is taken, or there are no locks."""
    if fcntl is None:
        return None
    try:
        # Not through a symlink: what it leads to is not ours.
        lock = os.open(path, (os.O_RDONLY if path.is_dir() else os.O_RDWR) | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        return None
    return lock
