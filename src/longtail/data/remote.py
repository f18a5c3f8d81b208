"""Data that is elsewhere: copied to a temporary folder, then read like any other file, with the same limits.

s3://, gs://, hdfs:// and abfs:// are read by pyarrow; other protocols, such as memory:// and http://, by fsspec.
A dataset directory is mapped from its copy, which the system removes with the last process that uses it.
"""

from __future__ import annotations

import fnmatch
import os
import posixpath
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.fs

from longtail.core.unfinished import temporary_folder
from longtail.core.urls import protocol_of, shown
from longtail.data import files
from longtail.data.pairs import feature_pair, text_pair
from longtail.errors import DataError, LongtailError, MissingExtraError, ModelError, first_line

_BY_ARROW = ("s3", "gs", "gcs", "hdfs", "viewfs", "abfs", "abfss")
_PIECE = 1 << 22
_OF_ADDRESSES = ":/@%~!$&'()+,;="  # characters that stay as they are
_FIXED = re.compile(r"([^*\[]*)/([^/]*[*\[].*)")  # a pattern: the folder before the first sign, and the rest


@contextmanager
def local_copy(url: str) -> Iterator[Path]:
    """Copy what an address stands for into a temporary folder; errors in the block name the address.

    Parameters
    ----------
    url : str
        A file, a folder or dataset directory, or a pattern such as `s3://bucket/part-*.parquet`.

    Yields
    ------
    Path
        The copy: a file or a folder.
    """
    name = shown(url)
    with temporary_folder() as folder:
        copy = folder
        try:
            with _said(name):
                copy = _copied(url, folder)
            yield copy
        except DataError as error:
            path = None if error.path is None else str(error.path).replace(str(copy), name)
            message = error.message.replace(str(copy), name)
            raise DataError(message, path=path, line=error.line, field=error.field) from error
        except ModelError as error:
            raise ModelError(str(error).replace(str(copy), name)) from error


@contextmanager
def _said(name: str) -> Iterator[None]:
    """Turn whatever a filesystem says into one line that names the address."""
    try:
        yield
    except LongtailError:
        raise
    except FileNotFoundError as error:
        raise DataError("does not exist", path=name) from error
    except (OSError, ValueError, TypeError, NotImplementedError, pa.ArrowException) as error:
        raise DataError(f"cannot be read ({first_line(error)})", path=name) from error
    except Exception as error:  # fsspec's packages have errors of their own
        raise DataError(f"cannot be read ({type(error).__name__}: {first_line(error)})", path=name) from error


def _filesystem(url: str) -> tuple[pa.fs.FileSystem, str]:
    protocol = protocol_of(url)
    if protocol in _BY_ARROW:
        address, mark, options = url.partition("?")
        system, path = pa.fs.FileSystem.from_uri(quote(address, safe=_OF_ADDRESSES) + mark + options)
        return system, path
    try:
        import fsspec
    except ImportError as error:
        raise MissingExtraError("fsspec", "remote", f"reading from {protocol}://") from error
    known = fsspec.available_protocols()
    if protocol not in known:
        raise DataError(
            f"unknown protocol {protocol}://; known are {', '.join(_BY_ARROW)} and what fsspec reads, such as http",
            path=shown(url),
        )
    try:
        system, path = fsspec.core.url_to_fs(url)
    except ImportError as error:
        raise DataError(
            f"fsspec needs another package for {protocol}:// ({first_line(error)})", path=shown(url)
        ) from error
    return pa.fs.PyFileSystem(pa.fs.FSSpecHandler(system)), path


def _copied(url: str, folder: Path) -> Path:
    address, mark, options = url.partition("?")
    fixed = _FIXED.match(address)
    if fixed is not None:
        system, base = _filesystem(fixed[1] + mark + options)
        inside = folder / "files"
        inside.mkdir()
        _copy_all(system, _matching(system, f"{base.rstrip('/')}/{fixed[2]}"), inside)
        return inside
    system, path = _filesystem(url)
    path = path.rstrip("/")
    found = system.get_file_info(path)
    if found.type == pa.fs.FileType.Directory:
        inside = folder / _safe(posixpath.basename(path) or "data")
        inside.mkdir()
        entries = system.get_file_info(pa.fs.FileSelector(path))
        _copy_all(system, [entry.path for entry in entries if entry.type == pa.fs.FileType.File], inside)
        return inside
    if found.type != pa.fs.FileType.File:
        raise FileNotFoundError(path)
    copy = folder / _safe(posixpath.basename(path))
    _copy(system, path, copy)
    partner = feature_pair(copy) or text_pair(copy)
    for ending in ("", *files.COMPRESSIONS) if partner else ():
        beside = posixpath.join(posixpath.dirname(path), partner.name + ending) if partner else ""
        if system.get_file_info(beside).type == pa.fs.FileType.File:
            _copy(system, beside, folder / posixpath.basename(beside))
            break
    return copy


def _matching(system: pa.fs.FileSystem, pattern: str) -> list[str]:
    """Return the files that a pattern matches, part by part of the path."""
    wanted = pattern.split("/")
    first = next(i for i, part in enumerate(wanted) if any(sign in part for sign in "*["))
    selector = pa.fs.FileSelector("/".join(wanted[:first]), recursive=first < len(wanted) - 1)
    found = []
    for entry in system.get_file_info(selector):
        parts = entry.path.split("/")
        if entry.type != pa.fs.FileType.File or len(parts) != len(wanted):
            continue
        if all(fnmatch.fnmatchcase(part, like) for part, like in zip(parts, wanted, strict=True)):
            found.append(entry.path)
    if not found:
        raise DataError("no file matches this pattern")
    return sorted(found)


def _copy_all(system: pa.fs.FileSystem, paths: list[str], folder: Path) -> None:
    for path in paths:
        name = _safe(posixpath.basename(path))
        if (folder / name).exists():  # of another folder
            name = f"{name.partition('.')[0]}-{len(os.listdir(folder))}.{name.partition('.')[2]}"
        _copy(system, path, folder / name)


def _copy(system: pa.fs.FileSystem, path: str, target: Path) -> None:
    source: Any
    with system.open_input_stream(path, compression=None) as source, open(target, "wb") as copy:
        shutil.copyfileobj(source, copy, _PIECE)


def _safe(name: str) -> str:
    """Return the name of a copy, which must not lead out of its folder."""
    if name in ("", ".", "..") or "/" in name or "\0" in name:
        raise DataError(f"a file has the name {name!r}, which cannot be copied")
    return name
