"""Attacks on models by somebody who can sign: one thing in a saved model is changed, and both digests are made again.

The digests of a model directory have no key, so they tell damage from intent only if nobody intends it. What is loaded
must be refused with an error of longtail, or predict; it must not crash, hang, or raise anything else.
"""

from __future__ import annotations

import copy
import hashlib
import json
import math
import re
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from attack.frame import Finding, attack, tally
from attack.jury import Jury
from attack.victims import VICTIMS, saved
from longtail.core import store

_NUMBERS = (0, 1, -1, 2, 3, 7, 255, 2**15, 2**16, 2**30, 2**31 - 1, 2**31, -(2**31), 2**40, 2**62, 2**63 - 1, -(2**63))
_REALS = (math.nan, math.inf, -math.inf, 0.0, -0.0, -1.0, 1e-45, 1e38, -1e38)
_JSON = (
    None, True, False, 0, 1, -1, 2, 17, 2**31, 2**63, 10**30, 0.5, -1.5, 1e308, math.nan, math.inf, "", "x", "dismec",
    "-1", "\ud800", "\x1b[31m", "a\0b", "..", "x" * 10_000, [], {}, [None], [0, 0], [-1, 5], [[[]]],
    {"$class": "dismec"}, {"$class": "popularity", "params": {}}, {"$tuple": [1, 2]}, {"$tuple": 3}, {"x": 1},
)  # fmt: skip
_DTYPES = {
    "bool": "BOOL", "uint8": "U8", "int8": "I8", "uint16": "U16", "int16": "I16", "float16": "F16", "uint32": "U32",
    "int32": "I32", "float32": "F32", "uint64": "U64", "int64": "I64", "float64": "F64",
}  # fmt: skip


@dataclass
class Model:
    """A saved model taken apart: the manifest, the arrays, and what the header of the array file will say."""

    manifest: dict[str, Any]
    arrays: dict[str, np.ndarray]
    header: Callable[[dict[str, Any]], Any] = lambda header: header

    @classmethod
    def of(cls, path: Path) -> Model:
        manifest, state = store.read(path, "model")
        return cls(copy.deepcopy(manifest), {name: np.array(array) for name, array in state.arrays.items()})

    def write(self, path: Path) -> None:
        """Write the directory with digests that are right for what it contains."""
        path.mkdir()
        entries = _entries(self.manifest)
        for number, entry in enumerate(entries):
            names = list(self.arrays)[number :: len(entries)]
            content = self._safetensors({name: self.arrays[name] for name in names})
            sound = isinstance(entry["file"], str) and re.fullmatch(r"arrays-\w+\.safetensors", entry["file"])
            (path / (entry["file"] if sound else f"arrays-{number:08}.safetensors")).write_bytes(content)
            entry |= {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
        text = json.dumps(self.manifest)
        self.manifest["sha256"] = _digest(json.loads(text))
        (path / store.MANIFEST).write_text(json.dumps(self.manifest))

    def _safetensors(self, arrays: dict[str, np.ndarray]) -> bytes:
        header, parts, at = {}, [], 0
        for name, array in arrays.items():
            data = array.tobytes()
            header[name] = {
                "dtype": _DTYPES[array.dtype.name],
                "shape": list(array.shape),
                "data_offsets": [at, at + len(data)],
            }
            parts.append(data + bytes(-len(data) % 8))
            at += len(parts[-1])
        text = json.dumps(self.header(header)).encode()
        text += b" " * (-len(text) % 8)
        return struct.pack("<Q", len(text)) + text + b"".join(parts)


def _entries(manifest: dict[str, Any]) -> list[dict[str, Any]]:
    """Return what a manifest says about its array files, as far as it says something."""
    more = manifest.get("more_arrays")
    found = [manifest["arrays"], *(more if isinstance(more, list) else ())]
    return [entry for entry in found if isinstance(entry, dict) and "file" in entry]


def _digest(manifest: dict[str, Any]) -> str:
    bare = {key: value for key, value in manifest.items() if key != "sha256"}
    return hashlib.sha256(
        json.dumps(bare, sort_keys=True, ensure_ascii=False).encode(errors="surrogatepass")
    ).hexdigest()


def sign(manifest: bytes, arrays: dict[str, bytes]) -> bytes:
    """Return a manifest with digests that are right for itself and for array files; what is no manifest stays."""
    try:
        values = json.loads(manifest)
        for entry in _entries(values):
            if entry["file"] in arrays:
                content = arrays[entry["file"]]
                entry |= {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
        values["sha256"] = _digest(values)
        return json.dumps(values).encode()
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return manifest


def sign_directory(path: Path) -> None:
    """Make the digests of a model or dataset directory right for what it contains now."""
    arrays = {file.name: file.read_bytes() for file in path.glob("arrays-*.safetensors")}
    (path / store.MANIFEST).write_bytes(sign((path / store.MANIFEST).read_bytes(), arrays))


def change_entries(model: Model, rng: np.random.Generator) -> str:
    """Set entries of an array, mostly of one that something may be indexed by, to numbers that hurt."""
    names = [name for name, array in model.arrays.items() if array.size]
    whole = [name for name in names if model.arrays[name].dtype.kind in "iub"]
    name = str(rng.choice(whole if whole and rng.random() < 0.8 else names))
    array = model.arrays[name].copy()
    flat = array.reshape(-1)
    count = int(rng.choice([1, 1, 1, 2, flat.size]))
    # The ends of arrays say most: the last row start, the first child.
    at = rng.choice([0, flat.size - 1, int(rng.integers(flat.size))], count) if count < flat.size else slice(None)
    if array.dtype.kind == "f":
        value: Any = rng.choice(_REALS)
    elif array.dtype.kind == "b":
        flat.view(np.uint8)[at] = value = int(rng.choice([0, 1, 2, 255]))
        model.arrays[name] = array
        return f"{name}[{at}] = byte {value}"
    else:
        limits = np.iinfo(array.dtype)
        near = [
            int(flat[at][0] if count < flat.size else flat[0]) + int(rng.integers(-2, 3)),
            flat.size,
            int(flat.max()) + 1,
        ]
        value = int(np.clip(int(rng.choice(np.array([*_NUMBERS, *near, *near], object))), limits.min, limits.max))
    with np.errstate(over="ignore"):
        flat[at] = value
    model.arrays[name] = array
    return f"{name}[{at}] = {value}"


def swap_entries(model: Model, rng: np.random.Generator) -> str:
    """Permute the entries of an array: all numbers stay in their range, but not in their order."""
    name = str(rng.choice([name for name, array in model.arrays.items() if array.size > 1] or list(model.arrays)))
    array = model.arrays[name]
    shuffled = rng.permutation(array.reshape(-1)) if rng.random() < 0.5 else array.reshape(-1)[::-1]
    model.arrays[name] = np.ascontiguousarray(shuffled).reshape(array.shape)
    return f"{name} shuffled"


def change_shape(model: Model, rng: np.random.Generator) -> str:
    """Make an array shorter, longer, empty, flat or deeper, or of another type, or leave it out."""
    name = str(rng.choice(list(model.arrays)))
    array = model.arrays[name]
    flat = array.reshape(-1)
    kinds = {
        "cut": flat[:-1], "cut to rows": array[:-1] if array.ndim else flat[:0],
        "longer": np.concatenate([flat, flat[:1]]),
        "twice": np.concatenate([array, array]) if array.ndim else flat, "empty": flat[:0], "flat": flat,
        "deeper": array[None], "transposed": np.ascontiguousarray(array.T), "one number": np.zeros((), array.dtype),
        "no rows": np.zeros((0, *array.shape[1:]), array.dtype), "no columns": np.zeros((*array.shape, 0), array.dtype),
        "of another type": array.astype(str(rng.choice(list(_DTYPES)))), "left out": None,
    }  # fmt: skip
    kind = str(rng.choice(list(kinds)))
    if kinds[kind] is None:
        del model.arrays[name]
    else:
        model.arrays[name] = np.ascontiguousarray(kinds[kind]).reshape(kinds[kind].shape)
    return f"{name} {kind}"


def swap_arrays(model: Model, rng: np.random.Generator) -> str:
    """Exchange two arrays, or replace one by the other."""
    one, other = (str(name) for name in rng.choice(list(model.arrays), 2))
    if rng.random() < 0.5:
        model.arrays[one], model.arrays[other] = model.arrays[other], model.arrays[one]
        return f"{one} and {other} exchanged"
    model.arrays[one] = model.arrays[other]
    return f"{one} replaced by {other}"


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield (container, key) of every value inside a JSON value."""
    keys = list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else []
    for key in keys:
        yield value, key
        yield from _places(value[key])


def change_manifest(model: Model, rng: np.random.Generator) -> str:
    """Replace, remove, add or exchange values of the manifest."""
    signed = {key: model.manifest[key] for key in ("kind", "format", "arrays", "sha256")}
    kept = {key: value for key, value in model.manifest.items() if key not in signed}
    part = str(rng.choice([part for part in ("params", "state", "state", "all") if part in kept or part == "all"]))
    places = list(_places({part: kept[part]} if part != "all" else kept))
    container, key = places[int(rng.integers(len(places)))]
    before = json.dumps(container[key])[:40]
    kind = str(rng.choice(["junk", "junk", "near", "remove", "add", "exchange"]))
    value = container[key]
    if kind == "remove" and len(container) > 1:
        del container[key]
    elif kind == "add" and isinstance(value, list):
        container[key] = value + (value[:1] or [0])
    elif kind == "exchange":
        other = places[int(rng.integers(len(places)))]
        container[key] = copy.deepcopy(other[0][other[1]])
    elif kind == "near" and isinstance(value, (int, float)) and not isinstance(value, bool):
        container[key] = value + int(rng.choice([-1, 1])) if rng.random() < 0.7 else value * 1000
    else:
        container[key] = _JSON[int(rng.integers(len(_JSON)))]
    model.manifest = signed | kept
    return f"manifest {part} {key}: {before} -> {kind} {json.dumps(container[key])[:60] if kind != 'remove' else ''}"


def nest_manifest(model: Model, rng: np.random.Generator) -> str:
    """Nest a value of the manifest so deeply that a recursive reader runs out of stack."""
    depth = int(rng.choice([50, 200, 400]))
    value: Any = 1
    opener = rng.random() < 0.5
    for _ in range(depth):
        value = [value] if opener else {"$class": "unitrows", "params": {"model": value}}
    model.manifest[str(rng.choice(["params", "state", "label_names", "class"]))] = value
    return f"manifest nested {depth} deep"


def change_header(model: Model, rng: np.random.Generator) -> str:
    """Say something else in the header of the array file than what follows it."""
    name = str(rng.choice(list(model.arrays)))
    field = str(rng.choice(["shape", "dtype", "data_offsets"]))
    number = [-1, 0, 1, 3, 2**31, 2**62, 2**63, 2**64, 10**30, 0.5, None, True, "8"][int(rng.integers(13))]
    values = {
        "shape": [[number], [number, number], [2**32, 2**32], number, [1] * 100, [0, 2**62], []],
        "dtype": ["BF16", "F8_E5M2", "", None, 4, *_DTYPES.values()],
        "data_offsets": [[number, number], [0, number], [number], number, [8, 0], [1, 5], []],
    }[field]
    value = values[int(rng.integers(len(values)))]

    def altered(header: dict[str, Any]) -> Any:
        return header | {name: header[name] | {field: value}} if name in header else header

    model.header = altered
    return f"header of {name}: {field} = {value}"


def change_file_name(model: Model, rng: np.random.Generator) -> str:
    """Name another array file."""
    names: tuple[Any, ...] = (
        "..", ".", "", "a\0b", "\ud800", "/etc/passwd", "../x", "manifest.json", "x" * 300, None, 3, [], "sub/x",
    )  # fmt: skip
    value = names[int(rng.integers(len(names)))]
    entries = _entries(model.manifest)
    entries[int(rng.integers(len(entries)))]["file"] = value
    return f"array file {value!r}"


CHANGES = (
    change_entries,
    swap_entries,
    change_shape,
    swap_arrays,
    change_manifest,
    nest_manifest,
    change_header,
    change_file_name,
)
_CHANCES = np.array([40, 5, 15, 5, 28, 1, 4, 2]) / 100


def try_one(victim: str, rng: np.random.Generator, folder: Path, jury: Jury) -> str:
    """Change one saved model and let the jury load it; return what was changed, or raise Finding.

    Parameters
    ----------
    victim : str
        Name in `VICTIMS`.
    rng : numpy.random.Generator
        Chooses what is changed.
    folder : Path
        Empty folder for the changed model.
    jury : Jury
        Process that loads it and predicts.

    Returns
    -------
    str
        What was changed, and whether it was refused or answered.
    """
    jury.warm(saved(victim))
    model = Model.of(saved(victim))
    done = []
    for _ in range(int(rng.choice([1, 1, 1, 2]))):
        change = CHANGES[int(rng.choice(len(CHANGES), p=_CHANCES))]
        if model.arrays:
            done.append(change(model, rng))
    path = folder / "model"
    model.write(path)
    what = f"{victim}: {'; '.join(done)}"
    verdict = jury.judge({"path": str(path), "verify": bool(rng.random() < 0.5), "mmap": bool(rng.random() < 0.8)})
    tally(f"changed models that were {'refused' if verdict.said.startswith('refused') else 'not refused'}")
    if not verdict.held:
        raise Finding(f"{what}: {verdict.said}")
    return f"{what}: {verdict.said}"


_JURIES: dict[bool, Jury] = {}


def jury_of(bounds: bool) -> Jury:
    """Return the process that all trials of this kind share."""
    if bounds not in _JURIES:
        _JURIES[bounds] = Jury(bounds=bounds)
    return _JURIES[bounds]


@attack("models/resigned")
def resigned(rng: np.random.Generator, folder: Path) -> None:
    """Change any model, sign it, load it, predict."""
    try_one(str(rng.choice(list(VICTIMS))), rng, folder, jury_of(bounds=False))


@attack("models/resigned-bounds")
def resigned_with_bounds(rng: np.random.Generator, folder: Path) -> None:
    """The same with kernels that check their bounds: what would write a little beyond an array is found, too."""
    try_one(str(rng.choice(list(VICTIMS))), rng, folder, jury_of(bounds=True))
