"""Damaged files of every reader: they are refused with an error of longtail, or read as consistent data."""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from attack.frame import ATTACKS, Attack, Finding, tally
from longtail.core.predictions import Predictions
from longtail.data import Dataset, read_dataset, read_label_table, read_predictions, write_dataset, write_predictions
from longtail.errors import LongtailError

_X = np.array([[0, 1.5, 0], [0, 0, 1e-9], [2, -1, 3], [0, 0, 0]], np.float32)
_FEATURES = Dataset(Y=[[0, 2], [], [1], [0]], X=_X)
_TEXTS = Dataset(Y=[[0, 2], [], [1]], texts=['one, "two"', "", "drei é\nvier"], label_names=["law", "ärt", "3"])
_PREDICTIONS = Predictions([[2, 0], [1, -1]], [[0.5, 0.25], [1e-3, -np.inf]])
_TELLING = [bytes([b]) for b in b' \n\r\t,:;-+.0129eE"{}[]\\\0\xff\x80\xef'] + [
    b"nan", b"1e999", b"99999999999", b"2147483647", b"\\ud800", b"null", b"[" * 50, b"\xf0\x9f\x98\x80",
]  # fmt: skip

# File name -> what writes it and what reads it.
_SEEDS: dict[str, tuple[Any, Callable[[Path], Any]]] = {
    **{f"a.txt{ending}": (_FEATURES, read_dataset) for ending in ("", ".gz", ".xz", ".zst")},
    "a.X.npz": (_FEATURES, read_dataset),
    "directory": (_FEATURES, read_dataset),
    **dict.fromkeys(("a.jsonl", "a.jsonl.zst", "a.csv", "a.tsv.gz", "a.parquet", "texts"), (_TEXTS, read_dataset)),
    **dict.fromkeys(("p.npz", "p.jsonl", "p.txt", "p.txt.xz"), (_PREDICTIONS, read_predictions)),
    "trn_X_Xf.txt": ({"trn_X_Xf.txt": b"2 3\n0:1 2:0.5\n1:2\n", "trn_X_Y.txt": b"2 2\n0:1\n1:1 0:1\n"}, read_dataset),
    "train_texts.txt": ({"train_texts.txt": b"one\ntwo\n", "train_labels.txt": b"a b\n\n"}, read_dataset),
    "labels.json": ({"labels.json": b'{"1": "law", "2": {"label": "x", "parents": ["1"]}}'}, read_label_table),
}  # fmt: skip


@functools.cache
def _originals(name: str) -> dict[str, bytes]:
    """Return the files that belong to a seed, by path."""
    content = _SEEDS[name][0]
    if isinstance(content, dict):
        return content
    with tempfile.TemporaryDirectory() as folder:
        write = write_predictions if isinstance(content, Predictions) else write_dataset
        write(content, Path(folder) / name)
        files = [file for file in sorted(Path(folder).rglob("*")) if file.is_file()]
        return {str(file.relative_to(folder)): file.read_bytes() for file in files}


def mutated(content: bytes, rng: np.random.Generator) -> bytes:
    """Return the bytes with a few random edits."""
    for _ in range(rng.integers(1, 5)):
        at, piece = int(rng.integers(len(content) + 1)), _TELLING[rng.integers(len(_TELLING))]
        kind = rng.integers(6)
        if kind == 0:
            content = content[:at]
        elif kind == 1:
            content = content[:at] + content[at + int(rng.integers(1, 9)) :]
        elif kind == 2:
            content = content[:at] + piece + content[at:]
        elif kind == 3:
            content = content[:at] + piece + content[at + len(piece) :]
        elif kind == 4:
            content = content[:at] + content[: int(rng.integers(64))] + content[at:]
        elif at < len(content):
            content = content[:at] + bytes([content[at] ^ (1 << int(rng.integers(8)))]) + content[at + 1 :]
    return content


def check_data(data: Dataset) -> None:
    """Raise Finding if a dataset contradicts itself."""
    for matrix in (data.Y, data.X):
        if matrix is None:
            continue
        matrix.check_format(full_check=True)
        if matrix.shape[0] != data.n_points or not np.isfinite(matrix.data).all():
            raise Finding("a matrix with other points, or values that are not finite")
    if data.texts is not None and len(list(data.texts)) != data.n_points:
        raise Finding("other texts than points")
    if data.label_names is not None and len(set(data.label_names)) != data.n_labels:
        raise Finding("label names that repeat")


def _mutated_file(name: str) -> Attack:
    read = _SEEDS[name][1]

    def attack(rng: np.random.Generator, folder: Path) -> None:
        for _ in range(20):  # one folder for several trials: making it takes longer than reading
            originals = _originals(name)
            changed = str(rng.choice(sorted(originals)))
            for file, content in originals.items():
                (folder / file).parent.mkdir(exist_ok=True)
                (folder / file).write_bytes(mutated(content, rng) if file == changed else content)
            tally("changed files")
            try:
                found = read(folder / name)
            except LongtailError as error:
                if "\n" in str(error):
                    raise Finding(f"a message of several lines: {error}") from error
                continue
            if isinstance(found, Dataset):
                check_data(found)

    return attack


for _name in _SEEDS:
    ATTACKS[f"files/{_name}"] = _mutated_file(_name)
