"""`njit` with a cache that is no reason to fail.

Numba keeps compiled kernels beside the sources, or in the user's cache folder. Where it can write to neither, as in a
container or for a service user, it refuses to compile at all; kernels are then cached in a private folder under the
system's temporary folder. A cache file that is empty or truncated is dropped and made again, and so is that of a
kernel that calls something that was changed in another file.

Cache files are pickles: Numba runs what is in them. So a temporary folder is used only if it is ours alone.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import shutil
import stat
import tempfile
from collections.abc import Callable
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import numba
import numpy as np

from longtail.core.kernel_sources import digest_of_sources

logger = logging.getLogger(__name__)


def njit(function: Callable[..., Any] | None = None, *, allocates: bool = True, **options: Any) -> Any:
    """Compile a function as `numba.njit` does; used as `@njit` or `@njit(cache=True, nogil=True)`.

    Parameters
    ----------
    function : callable, optional
        Function to compile.
    allocates : bool, default True
        False for a function that makes no array and returns none: nothing then counts references to its arrays. Numba
        counts at every call with an array, and at every array that is taken out of a tuple, by atomic instructions,
        which also wait for all reads before them; steps of coordinate descent took three to seven times as long. A
        function that makes or returns an array all the same is not compiled.
    **options
        Options of `numba.njit`.

    Returns
    -------
    callable
        Compiled function, or a decorator.
    """
    if function is None:
        return lambda decorated: njit(decorated, allocates=allocates, **options)
    if not allocates:
        options["_nrt"] = False  # Numba's runtime for memory
    try:
        kernel = numba.njit(**options)(function)
    except RuntimeError as error:
        if not options.get("cache") or "locator" not in str(error):
            raise
        options["cache"] = _use_temporary_cache()
        kernel = numba.njit(**options)(function)
    if options.get("cache"):
        _forgive(kernel)
    if not allocates:
        _refuse_to_return_arrays(kernel)
    return kernel


@lru_cache(maxsize=1)  # one decision and one message per process
def _use_temporary_cache() -> bool:
    """Let Numba keep kernels in a temporary folder; return False if there is none either."""
    folder = _private_folder()
    if folder is None:
        logger.warning(
            "compiled kernels cannot be kept, so every command compiles them again; set NUMBA_CACHE_DIR to a folder "
            "that can be written"
        )
        return False
    logger.warning(
        "the folders of longtail and of the user are read-only, so compiled kernels are kept in %s; NUMBA_CACHE_DIR "
        "chooses another folder", folder,
    )  # fmt: skip
    numba.config.CACHE_DIR = os.environ["NUMBA_CACHE_DIR"] = str(folder)  # the variable is for processes that we start
    return True


def _private_folder() -> Path | None:
    """Return a folder that only this user can write to, the same one in each run where possible."""
    try:
        folder = Path(tempfile.gettempdir()) / f"longtail-kernels-{os.getuid()}"
        with contextlib.suppress(FileExistsError):
            folder.mkdir(mode=0o700)
        found = folder.lstat()  # somebody else may have made it, or a link
        if stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not stat.S_IMODE(found.st_mode) & 0o077:
            with tempfile.TemporaryFile(dir=folder):
                return folder
    except (OSError, AttributeError):  # a read-only folder; Windows, whose temporary folder is the user's own
        pass
    try:
        once = Path(tempfile.mkdtemp(prefix="longtail-kernels-"))
    except OSError:
        return None
    atexit.register(shutil.rmtree, once, ignore_errors=True)
    return once


def _forgive(kernel: Any) -> None:
    """Let a kernel be compiled again where its cache file is damaged or outdated, and used where it cannot be kept."""
    files = getattr(getattr(kernel, "_cache", None), "_cache_file", None)
    if files is None:  # another Numba
        return
    load, save = files.load, files.save

    @lru_cache(maxsize=1)
    def stamp() -> None:  # at the first use: what the kernel calls may be defined after it
        files._source_stamp = (files._source_stamp, digest_of_sources(kernel.py_func))

    def load_or_drop(key: Any) -> Any:
        stamp()
        try:
            return load(key)
        except Exception as error:  # whatever a pickle that was cut short raises
            _say_damaged(os.path.dirname(files._index_path))
            logger.debug("the damage in %s", files._index_path, exc_info=error)
            with contextlib.suppress(OSError):
                os.unlink(files._index_path)
            return None

    def save_if_possible(key: Any, data: Any) -> None:
        stamp()
        with contextlib.suppress(OSError):  # a full disk
            save(key, data)

    files.load, files.save = load_or_drop, save_if_possible


def _refuse_to_return_arrays(kernel: Any) -> None:
    """Let the compilation fail if an array would be returned that nobody holds a reference to."""
    compile_for = kernel.compile

    def compile_and_look(signature: Any) -> Any:
        entry = compile_for(signature)
        for own in kernel.nopython_signatures:
            parts = (own.return_type, *getattr(own.return_type, "types", ()))
            if any(isinstance(part, numba.types.Array) for part in parts):
                raise TypeError(f"{kernel.py_func.__name__} returns an array; compile it with allocates=True")
        return entry

    kernel.compile = compile_and_look


@cache  # one message per folder, however many of its files are damaged
def _say_damaged(folder: str) -> None:
    logger.warning("files of compiled kernels in %s are damaged; compiling again", folder)


@njit(cache=True, nogil=True)
def copy_to(target: Any, source: Any) -> None:
    """Copy a vector to the beginning of another; for kernels.

    `target[:n] = source` means the same, but makes Numba compile an error message about shapes: two seconds more.
    """
    for j in range(source.shape[0]):
        target[j] = source[j]


@njit(cache=True, nogil=True)
def nonzero(values: Any) -> Any:
    """Return where values are not zero, as uint32; for kernels, where NumPy's takes longer to compile."""
    found = np.empty(values.shape[0], np.uint32)
    n = 0
    for i in range(values.shape[0]):
        if values[i] != 0:
            found[n] = i
            n += 1
    return found[:n].copy()
