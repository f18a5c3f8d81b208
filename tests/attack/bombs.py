"""Size bombs: small files that stand for much content. Memory stays within a multiple of the content that was allowed.

Each bomb is tried twice: with nearly as much content as is allowed, in the shape that takes most memory, and with
several times as much, which is refused on the way. A fork of this process reads it and reports its peak memory.
"""

from __future__ import annotations

import gzip
import json
import lzma
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import zstandard

from attack.frame import ATTACKS, Attack, Finding, tally
from attack.kills import end_of, fork
from attack.seeds import read_vectors, saved_frame
from longtail.data import read_dataset, read_label_table, read_predictions, read_vocabulary
from longtail.data.limits import GROWTH
from longtail.errors import LongtailError

ALLOWED = 4 << 20  # bytes of content, as LONGTAIL_MAX_CONTENT_BYTES says
MULTIPLE = 64  # memory per byte of content, at most: stated in docs/reliability.md
_ALWAYS = 96 << 20  # bytes that reading takes whatever the content is: buffers, one piece of a .zst file


def _repeated(start: bytes, piece: bytes, end: bytes = b"") -> Callable[[int], bytes]:
    return lambda size: start + piece * ((size - len(start) - len(end)) // len(piece)) + end


def _numbers(start: bytes, form: str, between: str) -> Callable[[int], bytes]:
    def build(size: int) -> bytes:
        count = size // (len(form % 1_000_000) + len(between))
        return start + between.join(form % (1_000_000 + i) for i in range(count)).encode()

    return build


_READERS: dict[str, Callable[[Path], Any]] = {
    "a": read_dataset, "p": read_predictions, "v": read_vocabulary, "labels": read_label_table, "w": read_vectors,
}  # fmt: skip
# File name and what it is full of -> content of a given size, before compression.
_CONTENT: dict[str, Callable[[int], bytes]] = {
    "a.txt.gz: points": _repeated(b"", b"0 0:1\n"),
    "a.txt.zst: empty lines": _repeated(b"0 0:1\n", b"\n"),
    "a.txt.xz: labels": _numbers(b"", "%d", ","),
    "a.txt.zst: features": _numbers(b"0 ", "%d:1", " "),
    "a.jsonl.gz: points": _repeated(b"", b'{"text":"","labels":[]}\n'),
    "a.jsonl.zst: labels": _numbers(b'{"text":"","labels":[', "%d", ","),
    "a.jsonl.gz: lists": _repeated(b'{"text":[', b"[],", b"[]]}"),
    "a.json.gz: objects": _repeated(b"[", b"{},", b"{}]"),
    "a.csv.gz: rows": _repeated(b"text,labels\n", b",\n"),
    "a.csv.zst: labels": _repeated(b"text,labels\nx,a", b";a"),
    "a.csv.gz: columns": _repeated(b"text,labels", b",a"),
    "p.txt.xz: points": _repeated(b"0:1\n", b"\n"),
    "p.txt.gz: labels": _numbers(b"", "%d:1", " "),
    "p.jsonl.gz: points": _repeated(b"", b'{"labels":[],"scores":[]}\n'),
    "v.json.gz: lists": _repeated(b"[", b"[],", b"[]]"),
    "v.csv.gz: rows": _repeated(b"id,label\n", b"a,b\n"),
    "v.nt.gz: triples": _repeated(b"", b"<a:b> <a:c> <a:d> .\n"),
    "labels.json.gz: lists": _repeated(b'{"a":[', b"[],", b"[]]}"),
    "w.txt.gz: words": _repeated(b"law 1 2\n", b"a 1 2\n"),
    "w.txt.gz: numbers": _repeated(b"law", b" 1"),
}
_PACK = {".gz": gzip.compress, ".xz": lzma.compress, ".zst": zstandard.compress}
_ONES = {"a": {"format": np.array(b"csr"), "data": np.zeros(0, np.float32), "indices": np.zeros(0, np.int32)}}


def _npz_pair(folder: Path, size: int) -> Path:
    """Write matrices of empty rows: nothing but row starts, which are all 0."""
    for name in ("a.X.npz", "a.Y.npz"):
        rows = size // 2 // 4
        np.savez_compressed(folder / name, shape=np.array([rows, 1]), indptr=np.zeros(rows + 1, np.int32), **_ONES["a"])
    return folder / "a.X.npz"


def _npz_predictions(folder: Path, size: int) -> Path:
    rows = size // 8
    np.savez_compressed(folder / "p.npz", labels=np.zeros((rows, 1), np.int32), scores=np.zeros((rows, 1), np.float32))
    return folder / "p.npz"


def _table(size: int, text_bytes: int) -> pa.Table:
    """Return a table whose rows are one text, stored once."""
    zeros = pa.array(np.zeros(size // (text_bytes + 24), np.int32))
    values = {"text": "x" * text_bytes, "labels": "a"}
    return pa.table({name: pa.DictionaryArray.from_arrays(zeros, [value]) for name, value in values.items()})


def _parquet(folder: Path, size: int, text_bytes: int = 0) -> Path:
    pa.parquet.write_table(_table(size, text_bytes), folder / "a.parquet", compression="zstd")
    return folder / "a.parquet"


def _hugging_face(folder: Path, size: int) -> Path:
    (folder / "saved").mkdir()
    for name, content in saved_frame(_table(size, 1000)).items():
        (folder / name).write_bytes(content)
    return folder / "saved"


_WRITERS: dict[str, Callable[[Path, int], Path]] = {
    "a.X.npz: empty rows": _npz_pair,
    "p.npz: zeros": _npz_predictions,
    "a.parquet: rows": _parquet,
    "a.parquet: a long text": lambda folder, size: _parquet(folder, size, 100_000),
    "saved: a long text": _hugging_face,
}
BOMBS = [*_CONTENT, *_WRITERS]


def write_bomb(name: str, folder: Path, size: int) -> Path:
    """Write a bomb with so many bytes of content into a folder; return its path."""
    if name in _WRITERS:
        return _WRITERS[name](folder, size)
    path = folder / name.partition(":")[0]
    path.write_bytes(_PACK[path.suffix](_CONTENT[name](size)))
    return path


def _status(field: str) -> int:
    """Return a number of /proc/self/status in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith(f"{field}:"))


def memory_of(name: str, folder: Path, size: int) -> dict[str, Any]:
    """Return the peak memory that reading a bomb added, the seconds of CPU time, and what was said."""
    path, result = write_bomb(name, folder, size), folder / "result.json"
    read = _READERS.get(path.name.partition(".")[0], read_dataset)

    def work() -> None:
        os.environ["LONGTAIL_MAX_CONTENT_BYTES"] = str(ALLOWED)
        before, begin, said = _status("VmRSS"), time.process_time(), "read"
        try:
            read(path)
        except LongtailError as error:
            said = str(error)
        used = {"bytes": _status("VmHWM") - before, "seconds": time.process_time() - begin}
        result.write_text(json.dumps({**used, "said": said, "file": path.stat().st_size}))

    if code := end_of(fork(work, folder / "says.txt")):
        said = (folder / "says.txt").read_text() if (folder / "says.txt").exists() else ""
        raise Finding(f"{name}: the process ended with {code} {said}")
    return json.loads(result.read_text())


def _bomb(name: str) -> Attack:
    def attack(rng: np.random.Generator, folder: Path) -> None:
        del rng
        for factor in (0.9, 8):
            place = folder / f"{factor}"
            place.mkdir()
            used = memory_of(name, place, int(factor * ALLOWED))
            tally("bombs")
            allowed = max(ALLOWED, GROWTH.default * used["file"])
            if used["bytes"] > _ALWAYS + MULTIPLE * min(allowed, factor * ALLOWED) or used["seconds"] > 20:
                raise Finding(f"{name}, {factor} times what is allowed: {used}")
            if factor * ALLOWED > 1.1 * allowed and used["said"] == "read":
                raise Finding(f"{name} was read, though it is {factor} times as large as allowed")

    return attack


for _name in BOMBS:
    ATTACKS[f"bombs/{_name}"] = _bomb(_name)


def main() -> None:
    """Print the memory per byte of content of each bomb that is small enough to be read."""
    for name in BOMBS:
        with tempfile.TemporaryDirectory() as folder:
            used = memory_of(name, Path(folder), int(0.9 * ALLOWED))
        sys.stdout.write(f"{name:24} {used['bytes'] / (0.9 * ALLOWED):5.1f} bytes per byte, {used['seconds']:4.1f} s\n")


if __name__ == "__main__":
    main()
