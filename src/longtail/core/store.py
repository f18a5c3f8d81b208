"""Directories that store a `State`: `manifest.json` and one safetensors file, written atomically and memory-mapped.

Models and converted datasets are both such directories. The manifest names its array file, with size and SHA-256, so
the manifest alone decides what the directory contains. A new directory is written under a temporary name and renamed;
an overwritten one gets its new array file first, and the manifest is replaced last. A reader never sees half of it,
and a crash leaves what was there before.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
import shutil
import struct
import time
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy
from safetensors import SafetensorError

from longtail.core.state import Array, State
from longtail.errors import ModelError, OutputError

MANIFEST = "manifest.json"
# The format of each kind of directory; raised whenever older versions could not read what is written.
FORMATS = {"model": 2, "dataset": 2}
# Older formats that can still be read: in format 1, datasets had neither ids nor weights.
_STILL_READ: dict[str, tuple[int, ...]] = {"model": (), "dataset": (1,)}
_AGAIN = {"model": "train the model", "dataset": "convert the data"}  # how a directory is made again
_ABANDONED_SECONDS = 24 * 3600
_DTYPES = {
    "BOOL": np.bool_, "U8": np.uint8, "I8": np.int8, "U16": np.uint16, "I16": np.int16, "F16": np.float16,
    "U32": np.uint32, "I32": np.int32, "F32": np.float32, "U64": np.uint64, "I64": np.int64, "F64": np.float64,
}  # fmt: skip


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
    if not path.parent.is_dir():
        raise OutputError(f"{path}: the folder {path.parent} does not exist")
    if not os.access(path.parent, os.W_OK):
        raise OutputError(f"{path}: no permission to write to the folder {path.parent}")
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
    replaces = (path / MANIFEST).is_file()
    replaced: str | None = None
    target = path if replaces else path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    arrays_file = f"arrays-{secrets.token_hex(4)}.safetensors"
    try:
        target.mkdir(exist_ok=True)
        size, digest = _write_arrays(target / arrays_file, state.arrays)
        manifest = dict(header, state=state.values, arrays={"file": arrays_file, "bytes": size, "sha256": digest})
        manifest["sha256"] = _digest(json.loads(json.dumps(manifest)))  # of what a reader will parse
        replaced = _named_arrays(path)
        _write_synced(target / f"{arrays_file}.json", json.dumps(manifest, ensure_ascii=False, indent=1).encode())
        os.replace(target / f"{arrays_file}.json", target / MANIFEST)
        if not replaces:
            os.rename(target, path)
    except (OSError, SafetensorError) as error:
        raise OutputError(f"{path}: could not be written ({getattr(error, 'strerror', None) or error})") from error
    finally:
        if target != path:
            shutil.rmtree(target, ignore_errors=True)
        else:
            _remove_unnamed(path, {replaced, arrays_file})
    return path


def _named_arrays(path: Path) -> str | None:
    """Return the array file that the manifest names, or None if there is no readable manifest."""
    try:
        return str(json.loads((path / MANIFEST).read_bytes())["arrays"]["file"])
    except (OSError, ValueError, TypeError, KeyError):
        return None


def _remove_unnamed(path: Path, ours: set[str | None]) -> None:
    """Remove array files that the manifest does not name: our own, old or of a failed write, and those of killed
    writers."""
    named = _named_arrays(path)
    for file in path.glob("arrays-*.safetensors*"):
        written = file.name.removesuffix(".json")
        with contextlib.suppress(FileNotFoundError):  # another writer may remove the same file
            if written != named and (written in ours or abandoned(file)):
                file.unlink()


def abandoned(file: Path) -> bool:
    """Return whether a temporary file was left by a killed process; a younger one may still be in use."""
    return time.time() - file.stat().st_mtime > _ABANDONED_SECONDS


def _digest(manifest: dict[str, Any]) -> str:
    """Return the SHA-256 of a manifest without its own digest, independent of white space and the order of keys."""
    bare = {key: value for key, value in manifest.items() if key != "sha256"}
    return hashlib.sha256(json.dumps(bare, sort_keys=True, ensure_ascii=False).encode()).hexdigest()


def _write_arrays(file: Path, arrays: dict[str, Array]) -> tuple[int, str]:
    safetensors.numpy.save_file({name: np.ascontiguousarray(array) for name, array in arrays.items()}, file)
    with open(file, "rb+") as handle:
        os.fsync(handle.fileno())
    return file.stat().st_size, sha256(file)


def _write_synced(file: Path, content: bytes) -> None:
    with open(file, "wb") as handle:
        handle.write(content)
        handle.flush()
        os.fsync(handle.fileno())


def sha256(file: Path) -> str:
    """Return the SHA-256 of a file."""
    with open(file, "rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def read(path: str | os.PathLike[str], kind: str, *, verify: bool = True) -> tuple[dict[str, Any], State]:
    """Read a directory; its arrays are memory-mapped, not copied.

    Parameters
    ----------
    path : str or path-like
        Directory that `write` made.
    kind : {"model", "dataset"}
        Kind that it must have.
    verify : bool, default True
        Compare the array file with its checksum, which reads it once; False saves time for very large models.

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
        entry = manifest["arrays"]
        file, size, digest = path / entry["file"], entry["bytes"], entry["sha256"]
        values = manifest["state"]
    except (KeyError, TypeError) as error:
        raise ModelError(f"{path / MANIFEST}: the field {error} is missing or malformed") from error
    if file.parent != path:
        raise ModelError(f"{path / MANIFEST}: the array file {entry['file']!r} is outside the directory")
    try:
        if file.stat().st_size != size or (verify and sha256(file) != digest):
            raise ModelError(
                f"{file} was altered after it was written; restore it from a copy, or {_AGAIN[kind]} again"
            )
        return manifest, State(values, _map_arrays(file))
    except FileNotFoundError as error:
        if _named_arrays(path) not in (None, entry["file"]):  # overwritten since the manifest was read
            return read(path, kind, verify=verify)
        raise ModelError(f"{file} is missing; restore it from a copy, or {_AGAIN[kind]} again") from error


def read_manifest(path: str | os.PathLike[str], kind: str) -> dict[str, Any]:
    """Return the manifest of a directory of this kind, or raise ModelError as `read` does."""
    path = Path(path)
    if not path.is_dir():
        raise ModelError(f"{path} is not a {kind} directory")
    file = path / MANIFEST
    if not file.is_file():
        raise ModelError(f"{path} is not a {kind} directory: {MANIFEST} is missing")
    try:
        manifest = json.loads(file.read_bytes())
        found, version = manifest["kind"], manifest["format"]
    except (ValueError, TypeError, KeyError) as error:
        raise ModelError(f"{file} was altered, or was not written by longtail ({error})") from error
    if found != kind:
        raise ModelError(f"{path} is a {found} directory, not a {kind} directory")
    if version != FORMATS[kind] and version not in _STILL_READ[kind]:
        raise ModelError(
            f"{path} has format {version}, but this version of longtail reads format {FORMATS[kind]}; "
            f"{_AGAIN[kind]} again"
        )
    if manifest.get("sha256") != _digest(manifest):
        raise ModelError(f"{file} was altered after it was written; restore it from a copy, or {_AGAIN[kind]} again")
    return dict(manifest)


def kind_of(path: str | os.PathLike[str]) -> str | None:
    """Return "model" or "dataset" for a directory that longtail wrote, None for anything else."""
    file = Path(path) / MANIFEST
    if not file.is_file():
        return None
    try:
        return str(json.loads(file.read_bytes())["kind"])
    except (ValueError, TypeError, KeyError):
        return None


def size_in_bytes(path: str | os.PathLike[str]) -> int:
    """Return the total size of the files in a directory."""
    return sum(file.stat().st_size for file in Path(path).iterdir())


def _map_arrays(file: Path) -> dict[str, Array]:
    # safetensors' own reader copies every tensor for NumPy, but the format is simple enough to map: eight bytes with
    # the length of the header, a JSON header with dtype, shape and byte range of each tensor, then the bytes.
    try:
        with open(file, "rb") as handle:
            (length,) = struct.unpack("<Q", handle.read(8))
            header = json.loads(handle.read(min(length, file.stat().st_size)))
        mapped = np.memmap(file, dtype=np.uint8, mode="r", offset=0)
        arrays: dict[str, Array] = {}
        for name, entry in header.items():
            if name == "__metadata__":
                continue
            start, end = entry["data_offsets"]
            dtype = np.dtype(_DTYPES[entry["dtype"]])
            # Not a view of `mapped`: SciPy copies an array whose base has many more elements than the array itself.
            array: Array = np.ndarray(entry["shape"], dtype, buffer=mapped, offset=8 + length + start)
            if array.nbytes != end - start:
                raise ValueError(f"{name} has {end - start} bytes, but its shape needs {array.nbytes}")
            arrays[name] = array
        return arrays
    except (struct.error, ValueError, KeyError, TypeError) as error:
        raise ModelError(f"{file} is not a readable safetensors file ({error})") from error
