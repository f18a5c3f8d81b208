"""Several files as one dataset: the shards in a folder, the files that a pattern matches, and standard input."""

from __future__ import annotations

import glob
import os
import re
import shutil
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from longtail.core import store
from longtail.core.inputs import PathLike
from longtail.core.unfinished import temporary_folder
from longtail.data import files
from longtail.errors import DataError

STDIN = "-"
STDIN_NAME = "standard input"
_SHARDS = (".jsonl", ".json", ".parquet", ".csv", ".tsv")
_SPLIT = re.compile(r"(train|trn|test|tst|dev|valid|val)(?![a-z])|(validation)", re.IGNORECASE)
_COMPRESSED = ((b"\x1f\x8b", ".gz"), (b"\xfd7zXZ\0", ".xz"), (b"\x28\xb5\x2f\xfd", ".zst"))
_SAVED = ("state.json", "dataset_info.json")  # what save_to_disk of a Hugging Face dataset writes
SPLITS = "dataset_dict.json"  # and of several splits
_XC_START = re.compile(rb"\s*\d+ +\d+ +\d+\s*\n")


def is_saved_frame(folder: Path) -> bool:
    """Return whether `save_to_disk` of a Hugging Face dataset wrote this folder."""
    return (folder / SPLITS).is_file() or all((folder / name).is_file() for name in _SAVED)


def find_shards(path: PathLike) -> list[Path] | None:
    """Return the files of a folder or a pattern, in the order of their names; None if the path is one dataset.

    Raises
    ------
    DataError
        If a pattern matches nothing, a folder holds several formats or splits, or one of the files is a pipe, a device
        or a link that leads nowhere.
    """
    place = Path(path)
    if place.is_dir():
        if (place / store.MANIFEST).exists() or is_saved_frame(place):
            return None
        return _in_folder(place)
    if place.exists() or not glob.has_magic(os.fspath(path)):
        return None
    found = _regular(Path(name) for name in sorted(_matching(os.fspath(path))))
    if not found:
        raise DataError("no file matches this pattern", path=path)
    return found


def _matching(pattern: str) -> set[str]:
    """Return what a pattern matches; `**` follows no links, which may lead in circles, or to the same files twice."""
    parts = pattern.split(os.sep)
    if "**" not in parts:
        return set(glob.glob(pattern))
    at = parts.index("**")
    rest = parts[at + 1 :] or ["*"]
    found: set[str] = set()
    for base in glob.glob(os.sep.join([*parts[:at], ""])) if at else [""]:
        for folder, inside, _ in os.walk(base or os.curdir):
            inside[:] = [name for name in inside if not name.startswith(".")]
            place = folder if base else folder[2:]  # without "./"
            found |= _matching(os.path.join(glob.escape(place), *rest))
    return found


def _in_folder(folder: Path) -> list[Path] | None:
    # Programs that write shards leave files such as _SUCCESS and .part-0.crc beside them.
    named = sorted(file for file in folder.iterdir() if file.name[0] not in "._")
    found = _regular(file for file in named if files.suffixes(file)[0] in _SHARDS)
    if not found:
        return None
    formats = sorted({files.suffixes(file)[0] for file in found})
    if len(formats) > 1:
        said = f"holds files of several formats ({', '.join(formats)}); give a pattern, e.g. '{folder}/*{formats[0]}'"
        raise DataError(said, path=folder)
    splits = {match[0].lower() for file in found if (match := _SPLIT.match(file.name))}
    if len(splits) > 1:
        one = sorted(splits)[-1]
        said = f"holds several splits ({', '.join(sorted(splits))}); give a pattern, e.g. '{folder}/{one}*'"
        raise DataError(said, path=folder)
    return found


def _regular(paths: Iterable[Path]) -> list[Path]:
    """Leave out folders; refuse what else is no file, whose points would be missing without a word."""
    found = [path for path in paths if not path.is_dir()]
    for path in found:
        if not path.is_file():
            said = "is a pipe, a device or a link that leads nowhere; remove it, or give a pattern without it"
            raise DataError(said, path=path)
    return found


@contextmanager
def standard_input() -> Iterator[Path]:
    """Copy standard input to a temporary file whose name says what it looks like: JSON, Parquet, XC or a table."""
    if sys.stdin is None:
        raise DataError("is closed; send data to it, or name a file", path=STDIN_NAME)
    with temporary_folder() as folder:
        raw = folder / "stdin"
        try:
            with open(raw, "wb") as copy:
                shutil.copyfileobj(sys.stdin.buffer, copy)
        except OSError as error:
            said = f"could not be copied to a temporary folder, {folder.parent} ({error.strerror or error})"
            raise DataError(said, path=STDIN_NAME) from error
        with open(raw, "rb") as stream:
            start = stream.read(8)
        compression = next((suffix for mark, suffix in _COMPRESSED if start.startswith(mark)), "")
        packed = raw.rename(raw.with_name(f"stdin{compression}"))
        with files.reading(packed) as stream:
            named = packed.with_name(f"stdin{_looks_like(stream.read(4096))}{compression}")
        yield packed.rename(named)


def _looks_like(start: bytes) -> str:
    if start.startswith(b"PAR1"):
        return ".parquet"
    if start.removeprefix(b"\xef\xbb\xbf").lstrip(b" \r\n\t\0\xff\xfe")[:1] in (b"{", b"["):
        return ".jsonl"
    return ".txt" if _XC_START.match(start) else ".csv"
