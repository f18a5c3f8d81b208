"""What the benchmarks of text models share: reading texts, label matrices, progress as lines, one CPU thread.

Nothing here needs Numba.
"""

from __future__ import annotations

import json
import lzma
import time
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

K = 20
BF16_PEAK = {"NVIDIA H200": 989e12, "NVIDIA H100": 989e12, "NVIDIA A100": 312e12}  # dense, from the data sheets


class Notes:
    """Progress as lines: one per epoch."""

    def __init__(self) -> None:
        self.shown = ""

    def start(self, task: str, total: int) -> None:
        print(f"{task}: {total} steps", flush=True)

    def advance(self, amount: int = 1) -> None: ...

    def note(self, text: str) -> None:
        if text.partition(",")[0] != self.shown.partition(",")[0] and self.shown:
            print(self.shown, flush=True)
        self.shown = text

    def finish(self) -> None:
        print(self.shown, flush=True)


def read(file: Path) -> tuple[list[str], list[list[str]]]:
    with lzma.open(file, "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    return [row["text"] for row in rows], [row["labels"] for row in rows]


def label_texts(folder: Path) -> str:
    """Return the file of label texts in a folder of data."""
    places = [folder / name for name in ("names.json", "labels.json.xz")]
    found = next((place for place in places if place.is_file()), None)
    if found is None:
        raise SystemExit(f"{folder} has neither names.json nor labels.json.xz")
    return str(found)


def indicator(labels: list[list[str]], column: dict[str, int]) -> sparse.csr_matrix:
    """Return the label matrix; labels that training does not know are left out (scoring counts them)."""
    kept = [sorted({column[label] for label in row if label in column}) for row in labels]
    indptr = np.cumsum([0, *map(len, kept)])
    indices = np.array([i for row in kept for i in row], np.int32)
    return sparse.csr_matrix((np.ones(indices.size, np.float32), indices, indptr), (len(labels), len(column)))


def on_one_thread(model: Any, dev: tuple[list[str], sparse.csr_matrix], n_points: int) -> dict[str, Any]:
    """Return milliseconds per text on one CPU core and P@k, with float32 and with 8-bit weights."""
    found = {}
    settings = {"device": "cpu", "precision": "float32"} | ({"n_jobs": 1} if "n_jobs" in model.get_params() else {})
    for quantise in ("none", "int8"):
        model.set_params(quantise=quantise, **settings)
        model.predict(dev[0][:4], k=K)
        started = time.perf_counter()
        labels = model.predict(dev[0][:n_points], k=K).labels
        found[quantise] = {"ms": 1000 * (time.perf_counter() - started) / n_points}
        found[quantise]["P"] = [precision(labels, dev[1][:n_points], k) for k in (1, 3, 5)]
    return found


def precision(labels: np.ndarray, Y: sparse.csr_matrix, k: int) -> float:
    """Return P@k in percent without `longtail.metrics`, which needs Numba; unknown labels are no hits either way."""
    rows = np.repeat(np.arange(labels.shape[0]), k)
    return float(100 * np.asarray(Y[rows, labels[:, :k].ravel()]).sum() / rows.size)
