"""Directories that store a `State`: `manifest.json` and safetensors files, written atomically and memory-mapped.

Models and converted datasets are both such directories. The manifest names its array files, with sizes and SHA-256, so
the manifest alone decides what the directory contains. A new directory is written under a temporary name and renamed;
an overwritten one gets its new array files first, and the manifest is replaced last. A reader never sees half of it,
and a crash leaves what was there before. Most directories have one array file; arrays of more than a gibibyte together
are spread over several.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from contextlib import ExitStack
from io import BufferedReader
from pathlib import Path
from typing import Any

from safetensors import SafetensorError

from longtail.core.array_file import describe, in_files, open_inside, read_arrays, write_arrays
from longtail.core.state import Array, State
from longtail.core.unfinished import check_place, remove_dead, remove_dead_temporaries, temporary_name, unfinished
from longtail.errors import ModelError, OutputError, first_line

MANIFEST = "manifest.json"
# The format of each kind of directory; raised whenever older versions could not read what is written.
FORMATS = {"model": 2, "dataset": 2}
_SEVERAL_FILES = 3  # the format of directories with several array files
# Other formats that can be read: in format 1, datasets had neither ids nor weights.
_ALSO_READ: dict[str, tuple[int, ...]] = {"model": (_SEVERAL_FILES,), "dataset": (1, _SEVERAL_FILES)}
_AGAIN = {"model": "train the model", "dataset": "convert the data"}  # how a directory is made again
_MORE = "more_arrays"  # field of the manifest: the second array file and so on
_ARRAYS_FILE = re.compile(r"arrays-[0-9a-f]{8}\.safetensors")

_FILE_BYTES = 1 << 30  # of an array file, unless a single array has more


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
    """Write array files with new names, then the manifest that names them; array files of other manifests go."""
    ours: set[str] = set()
    try:
        with ExitStack() as locks:
            entries = []
            for arrays in in_files(state.arrays, _FILE_BYTES):
                file = locks.enter_context(unfinished(lambda token: path / f"arrays-{token}.safetensors"))
                ours.add(file.name)
                size, digest = write_arrays(file, arrays)
                entries.append({"file": file.name, "bytes": size, "sha256": digest})
            manifest = dict(header, state=state.values, arrays=entries[0])
            if len(entries) > 1:
                manifest |= {"format": _SEVERAL_FILES, _MORE: entries[1:]}
            manifest["sha256"] = json_digest(json.loads(json.dumps(manifest)))  # of what a reader will parse
            ours |= _named_arrays(path)  # those that are replaced
            first = path / f"{entries[0]['file']}.json"
            write_synced(first, json.dumps(manifest, ensure_ascii=False, indent=1).encode())
            os.replace(first, path / MANIFEST)
    finally:
        _remove_unnamed(path, ours)


def _named_arrays(path: Path) -> set[str]:
    """Return the array files that the manifest names; none if there is no readable manifest."""
    try:
        manifest = json.loads((path / MANIFEST).read_bytes())
        return {str(entry["file"]) for entry in (manifest["arrays"], *manifest.get(_MORE, ()))}
    except (OSError, ValueError, TypeError, KeyError, RecursionError, AttributeError):
        return set()


def _remove_unnamed(path: Path, ours: set[str]) -> None:
    """Remove array files that the manifest does not name: our own, old or of a failed write, and those of killed
    writers."""
    named = _named_arrays(path)
    for file in path.glob("arrays-*.safetensors"):
        if file.name in named:
            continue
        if file.name in ours:
            file.unlink(missing_ok=True)  # another writer may remove the same file
        else:
            # Its writer may have published it since `named` was read.
            remove_dead([file], unless=lambda file: file.name in _named_arrays(path))
    for file in path.glob("arrays-*.safetensors.json"):
        if not file.with_suffix("").exists():  # the manifest of an array file that is gone
            file.unlink(missing_ok=True)


def json_digest(manifest: dict[str, Any]) -> str:
    """Return the SHA-256 of a manifest without its own digest, independent of white space and the order of keys."""
    bare = {key: value for key, value in manifest.items() if key != "sha256"}
    return hashlib.sha256(json.dumps(bare, sort_keys=True, ensure_ascii=False).encode()).hexdigest()


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
        Compare the array files with their checksums, which reads them once; False saves time for very large models.
    mmap : bool, default True
        Map the array files; False reads them into memory.

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
    values = manifest.get("state")
    if not isinstance(values, dict):
        raise ModelError(f"{path / MANIFEST}: the field 'state' is missing or malformed")
    arrays: dict[str, Array] = {}
    for name, size, digest in _array_files(path, manifest):
        altered = f"{path / name} was altered after it was written; restore it from a copy, or {_AGAIN[kind]} again"
        try:
            with open_inside(path, name) as file:
                if os.fstat(file.fileno()).st_size != size or (verify and _digest_of(file) != digest):
                    raise ModelError(altered)
                found = read_arrays(file, mmap=mmap)
        except FileNotFoundError as error:
            if _named_arrays(path) and name not in _named_arrays(path):  # overwritten since the manifest was read
                return read(path, kind, verify=verify, mmap=mmap)
            raise ModelError(f"{path / name} is missing; restore it from a copy, or {_AGAIN[kind]} again") from error
        except (OSError, MemoryError) as error:
            raise ModelError(f"{path / name} cannot be read ({describe(error)})") from error
        if twice := arrays.keys() & found.keys():
            raise ModelError(f"{path / name}: the array {min(twice)[:80]} is in another file, too")
        arrays |= found
    return manifest, State(values, arrays)


def _array_files(path: Path, manifest: dict[str, Any]) -> list[tuple[str, Any, Any]]:
    """Return name, size and digest of each array file, or raise ModelError."""
    try:
        more = manifest.get(_MORE, [])
        if not isinstance(more, list) or bool(more) != (manifest["format"] == _SEVERAL_FILES):
            raise KeyError(_MORE)
        found = [(entry["file"], entry["bytes"], entry["sha256"]) for entry in (manifest["arrays"], *more)]
    except (KeyError, TypeError) as error:
        raise ModelError(f"{path / MANIFEST}: the field {error} is missing or malformed") from error
    for name, _, _ in found:
        if not isinstance(name, str) or not _ARRAYS_FILE.fullmatch(name):
            raise ModelError(
                f"{path / MANIFEST}: the array file {str(name)[:80]!r} is outside the directory, "
                "or was not written by longtail"
            )
    return found


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
    if version != FORMATS[kind] and version not in _ALSO_READ[kind]:
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
