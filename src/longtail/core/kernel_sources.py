"""What a compiled kernel was made of besides its own file: functions of the package that it calls, constants it names.

Numba keeps a kernel until the file that defines it changes. Whatever a kernel calls is compiled into it, and so is the
value of every global name, wherever these come from: after an upgrade in place, a kernel of an unchanged file would
still do what the old files said.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np

_PLAIN = (bool, int, float, complex, str, bytes, np.generic, np.dtype, type(None))


def digest_of_sources(function: FunctionType) -> bytes:
    """Return a digest of the files with what a kernel reaches, and of the constants that are compiled into it.

    Parameters
    ----------
    function : function
        The Python function of a kernel. All that it calls must have been imported.

    Returns
    -------
    bytes
    """
    package = _package_of(function)
    files: set[str] = set()
    constants: set[str] = set()
    seen: set[int] = set()
    waiting: list[Any] = [function]
    while waiting:
        value = _plain_function(waiting.pop())
        if id(value) in seen or (isinstance(value, (FunctionType, type)) and _package_of(value) != package):
            continue
        seen.add(id(value))
        if isinstance(value, FunctionType):
            files.add(value.__code__.co_filename)
            for name, found in _named(value):
                if (constant := _constant(found)) is not None:
                    constants.add(f"{name}={constant}")
                else:
                    waiting.append(found)
        elif isinstance(value, tuple):
            waiting += value
        elif isinstance(value, type):
            waiting += vars(value).values()
    digest = hashlib.sha256("\n".join(sorted(constants)).encode(errors="replace"))
    for content in sorted(map(_digest_of_file, files)):
        digest.update(content)
    return digest.digest()


def _constant(value: Any) -> str | None:
    """Return what is compiled in for a global name; None if it is not a constant."""
    if isinstance(value, np.ndarray):
        return hashlib.sha256(np.ascontiguousarray(value).data).hexdigest()
    if isinstance(value, tuple):
        inside = [_constant(item) for item in value]
        return None if None in inside else f"({', '.join(map(str, inside))})"
    return repr(value) if isinstance(value, _PLAIN) else None


def _plain_function(value: Any) -> Any:
    """Return the Python function behind a kernel or an intrinsic; other values stay as they are."""
    for attribute in ("py_func", "_defn", "__func__"):
        inner = getattr(value, attribute, None)
        if isinstance(inner, FunctionType):
            value = inner
    return value


def _package_of(value: FunctionType | type) -> str:
    return str(value.__module__).partition(".")[0]


def _named(function: FunctionType) -> Iterator[tuple[str, Any]]:
    """Yield the globals that a function and the functions inside it name, and what it closes over."""
    names = {name for code in _codes(function.__code__) for name in code.co_names}
    for name in names & function.__globals__.keys():
        value = function.__globals__[name]
        yield name, value
        if isinstance(value, ModuleType):
            yield from ((f"{name}.{inner}", vars(value)[inner]) for inner in names & vars(value).keys())
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield name, cell.cell_contents
        except ValueError:  # not bound yet
            continue


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _codes(inner)


def _digest_of_file(file: str) -> bytes:
    try:
        found = os.stat(file)
        return _digest_of_content(file, found.st_mtime_ns, found.st_size)
    except OSError:  # not a file; Numba looks at its own file itself
        return b""


@cache
def _digest_of_content(file: str, modified: int, size: int) -> bytes:
    """Return the digest of a file; the time and the size are those that it had, so that a change is noticed."""
    del modified, size
    return hashlib.sha256(Path(file).read_bytes()).digest()
