"""Directories that store a `State`: `manifest.json` and one safetensors file, written atomically and memory-mapped.

Models and converted datasets are both such directories. The manifest names its array file, with size and SHA-256, so
the manifest alone decides what the directory contains. A new directory is written under a temporary name and renamed;
an overwritten one gets its new array file first, and the manifest is replaced last. A reader never sees half of it,
and a crash leaves what was there before.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import struct
from io import BufferedReader
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError

from longtail.core.array_file import describe, open_inside, read_arrays
from longtail.core.state import Array, State
from longtail.core.unfinished import check_place, remove_dead, remove_dead_temporaries, temporary_name, unfinished
from longtail.errors import ModelError, OutputError, first_line

MANIFEST = "manifest.json"
# The format of each kind of directory; raised whenever older versions could not read what is written.
FORMATS = {"model": 2, "dataset": 2}
# Older formats that can still be read: in format 1, datasets had neither ids nor weights.
_STILL_READ: dict[str, tuple[int, ...]] = {"model": (), "dataset": (1,)}
_AGAIN = {"model": "train the model", "dataset": "convert the data"}  # how a directory is made again
_DTYPES = {
    "BOOL": np.bool_, "U8": np.uint8, "I8": np.int8, "U16": np.uint16, "I16": np.int16, "F16": np.float16,
    "U32": np.uint32, "I32": np.int32, "F32": np.float32, "U64": np.uint64, "I64": np.int64, "F64": np.float64,
}  # fmt: skip
_ARRAYS_FILE = re.compile(r"arrays-[0-9a-f]{8}\.safetensors")

_NAMES = {np.dtype(kind): name for name, kind in _DTYPES.items()}


def check_free(path: str | os.PathLike[str], *, kind: str, overwrite: bool = False) -> Path:
    """Return the path if a directory of this kind may be written there; call it before long work, too.

    Only a directory of the same kind is ever replaced: a model must not overwrite the dataset it was trained on.

    Parameters
    ----------
    path : str or path-like
        Directory to write.
    kind : {"model", "dataset"}
        What will be written.
    overwrite : bool, default False
        Whether a directory of the same kind may be replaced.

    Returns
    -------
    Path

    Raises
    ------
    OutputError
        If something else is there, or the parent folder is missing or read-only.
    """
    path = Path(path)
    check_place(path)
    if path.is_dir() and not any(path.iterdir()):
        return path
    if not path.exists():
        return path
    if not (path / MANIFEST).is_file():
        raise OutputError(f"{path} exists, is not empty and was not written by longtail; choose another output path")
    found = kind_of(path)
    if found is not None and found != kind:
        raise OutputError(f"{path} is a {found} directory, which a {kind} cannot replace; choose another output path")
    if not overwrite:
        raise OutputError(
            f"{path} is not empty; choose another output path, or overwrite it (overwrite=True, --overwrite)"
        )
    return path


def write(path: str | os.PathLike[str], header: dict[str, Any], state: State, *, overwrite: bool = False) -> Path:
    """Write a directory, completely or not at all.

    Parameters
    ----------
    path : str or path-like
        New or empty directory.
    header : dict
        Fields of the manifest as JSON values, among them `kind`.
    state : State
        Values, which go to the manifest, and arrays.
    overwrite : bool, default False
        Replace a directory of the same kind.

    Returns
    -------
    Path
        The directory.

    Raises
    ------
    OutputError
        If the directory cannot be written, or something else is there.
    """
    header = {"kind": header["kind"], "format": FORMATS[header["kind"]], **header}
    path = check_free(path, kind=header["kind"], overwrite=overwrite)
    try:
        remove_dead_temporaries(path)
        if (path / MANIFEST).is_file():
            _write_into(path, header, state)
        else:
            with unfinished(temporary_name(path), folder=True) as target:
                try:
                    _write_into(target, header, state)
                    os.rename(target, path)
                finally:
                    shutil.rmtree(target, ignore_errors=True)
    except (OSError, SafetensorError) as error:
        raise OutputError(f"{path}: could not be written ({getattr(error, 'strerror', None) or error})") from error
    except UnicodeEncodeError as error:
        raise OutputError(
            f"{path}: could not be written: {error.object[error.start : error.end]!r} in a parameter or a name "
            "cannot be encoded as UTF-8; use another value"
        ) from error
    return path


def _write_into(path: Path, header: dict[str, Any], state: State) -> None:
    """Write an array file with a new name, then the manifest that names it; array files of other manifests go."""
    replaced, ours = None, None
    try:
        with unfinished(lambda token: path / f"arrays-{token}.safetensors") as file:
            ours = file.name
            size, digest = _write_arrays(file, state.arrays)
            manifest = dict(header, state=state.values, arrays={"file": ours, "bytes": size, "sha256": digest})
            manifest["sha256"] = json_digest(json.loads(json.dumps(manifest)))  # of what a reader will parse
            replaced = _named_arrays(path)
            write_synced(path / f"{ours}.json", json.dumps(manifest, ensure_ascii=False, indent=1).encode())
            os.replace(path / f"{ours}.json", path / MANIFEST)
    finally:
        _remove_unnamed(path, {replaced, ours})


def _named_arrays(path: Path) -> str | None:
    """Return the array file that the manifest names, or None if there is no readable manifest."""
    try:
        return str(json.loads((path / MANIFEST).read_bytes())["arrays"]["file"])
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return None


def _remove_unnamed(path: Path, ours: set[str | None]) -> None:
    """Remove array files that the manifest does not name: our own, old or of a failed write, and those of killed
    writers."""
    named = _named_arrays(path)
    for file in path.glob("arrays-*.safetensors"):
        if file.name == named:
            continue
        if file.name in ours:
            file.unlink(missing_ok=True)  # another writer may remove the same file
        else:
            # Its writer may have published it since `named` was read.
            remove_dead([file], unless=lambda file: file.name == _named_arrays(path))
    for file in path.glob("arrays-*.safetensors.json"):
        if not file.with_suffix("").exists():  # the manifest of an array file that is gone
            file.unlink(missing_ok=True)


def json_digest(manifest: dict[str, Any]) -> str:
    """Return the SHA-256 of a manifest without its own digest, independent of white space and the order of keys."""
    bare = {key: value for key, value in manifest.items() if key != "sha256"}
    return hashlib.sha256(json.dumps(bare, sort_keys=True, ensure_ascii=False).encode()).hexdigest()


def _write_arrays(file: Path, arrays: dict[str, Array]) -> tuple[int, str]:
    """Write a safetensors file in place and return its size and SHA-256.

    The package's own writer would write another file and rename it: a file without our lock, left by a kill.
    """
    names = sorted(arrays, key=lambda name: (-arrays[name].dtype.itemsize, name))  # every array starts aligned
    entries, end = {}, 0
    for name in names:
        array = arrays[name]
        if array.dtype not in _NAMES:
            raise SafetensorError(f"the array {name} has the unsupported type {array.dtype}")
        start, end = end, end + array.nbytes
        entries[name] = {"dtype": _NAMES[array.dtype], "shape": list(array.shape), "data_offsets": [start, end]}
    header = json.dumps(entries, ensure_ascii=False, separators=(",", ":")).encode()
    header += b" " * (-len(header) % 8)
    contents = (np.ascontiguousarray(arrays[name]).data for name in names)
    pieces: list[bytes | memoryview[Any]] = [struct.pack("<Q", len(header)), header, *contents]
    digest, size = hashlib.sha256(), 0
    with open(file, "wb") as handle:
        for piece in pieces:
            handle.write(piece)
            digest.update(piece)
            size += len(piece) if isinstance(piece, bytes) else piece.nbytes
        handle.flush()
        os.fsync(handle.fileno())
    return size, digest.hexdigest()


def write_synced(file: Path, content: bytes) -> None:
    """Write a file that survives a power cut from here on."""
    with open(file, "wb") as handle:
        handle.write(content)
        handle.flush()
        os.fsync(handle.fileno())


def sha256(file: Path) -> str:
    """Return the SHA-256 of a file."""
    with open(file, "rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def read(
    path: str | os.PathLike[str], kind: str, *, verify: bool = True, mmap: bool = True
) -> tuple[dict[str, Any], State]:
    """Read a directory; its arrays are memory-mapped, not copied.

    Parameters
    ----------
    path : str or path-like
        Directory that `write` made.
    kind : {"model", "dataset"}
        Kind that it must have.
    verify : bool, default True
        Compare the array file with its checksum, which reads it once; False saves time for very large models.
    mmap : bool, default True
        Map the array file; False reads it into memory.

    Returns
    -------
    manifest : dict
        Fields of manifest.json.
    state : State
        Values and arrays.

    Raises
    ------
    ModelError
        If the directory is missing, incomplete, altered, or of another kind or format.
    """
    path = Path(path)
    manifest = read_manifest(path, kind)
    try:
        name, size, digest = (manifest["arrays"][key] for key in ("file", "bytes", "sha256"))
        values = manifest["state"]
    except (KeyError, TypeError) as error:
        raise ModelError(f"{path / MANIFEST}: the field {error} is missing or malformed") from error
    if not isinstance(values, dict):
        raise ModelError(f"{path / MANIFEST}: the field 'state' is missing or malformed")
    if not isinstance(name, str) or not _ARRAYS_FILE.fullmatch(name):
        raise ModelError(
            f"{path / MANIFEST}: the array file {str(name)[:80]!r} is outside the directory, "
            "or was not written by longtail"
        )
    altered = f"{path / name} was altered after it was written; restore it from a copy, or {_AGAIN[kind]} again"
    try:
        with open_inside(path, name) as file:
            if os.fstat(file.fileno()).st_size != size or (verify and _digest_of(file) != digest):
                raise ModelError(altered)
            return manifest, State(values, read_arrays(file, mmap=mmap))
    except FileNotFoundError as error:
        if _named_arrays(path) not in (None, name):  # overwritten since the manifest was read
            return read(path, kind, verify=verify, mmap=mmap)
        raise ModelError(f"{path / name} is missing; restore it from a copy, or {_AGAIN[kind]} again") from error
    except (OSError, MemoryError) as error:
        raise ModelError(f"{path / name} cannot be read ({describe(error)})") from error


def _digest_of(file: BufferedReader) -> str:
    file.seek(0)
    return hashlib.file_digest(file, "sha256").hexdigest()


def read_manifest(path: str | os.PathLike[str], kind: str) -> dict[str, Any]:
    """Return the manifest of a directory of this kind, or raise ModelError as `read` does."""
    path = Path(path)
    if not path.is_dir():
        raise ModelError(f"{path} is not a {kind} directory")
    file = path / MANIFEST
    try:
        with open_inside(path, MANIFEST) as handle:
            manifest = json.loads(handle.read())
        found, version = manifest["kind"], manifest["format"]
        digest = json_digest(manifest)
    except FileNotFoundError as error:
        raise ModelError(f"{path} is not a {kind} directory: {MANIFEST} is missing") from error
    except (OSError, MemoryError) as error:
        raise ModelError(f"{file} cannot be read ({describe(error)})") from error
    except RecursionError as error:
        raise ModelError(f"{file} was not written by longtail (it is nested too deeply)") from error
    except (ValueError, TypeError, KeyError) as error:
        raise ModelError(f"{file} was altered, or was not written by longtail ({first_line(error)})") from error
    if found != kind:
        raise ModelError(f"{path} is a {str(found)[:80]} directory, not a {kind} directory")
    if version != FORMATS[kind] and version not in _STILL_READ[kind]:
        raise ModelError(
            f"{path} has format {str(version)[:80]}, but this version of longtail reads format {FORMATS[kind]}; "
            f"{_AGAIN[kind]} again"
        )
    if manifest.get("sha256") != digest:
        raise ModelError(f"{file} was altered after it was written; restore it from a copy, or {_AGAIN[kind]} again")
    return dict(manifest)


def kind_of(path: str | os.PathLike[str]) -> str | None:
    """Return "model" or "dataset" for a directory that longtail wrote, None for anything else."""
    file = Path(path) / MANIFEST
    if not file.is_file():
        return None
    try:
        return str(json.loads(file.read_bytes())["kind"])
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return None


def size_in_bytes(path: str | os.PathLike[str]) -> int:
    """Return the total size of the files in a directory."""
    return sum(file.stat().st_size for file in Path(path).iterdir())
