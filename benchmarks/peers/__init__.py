"""Systems side by side: the same files, one after the other, each in a process of its own."""

from __future__ import annotations

import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from longtail.bench.prepare import prepared
from longtail.bench.recipe import read_recipe
from longtail.core.predictions import Predictions
from longtail.data import read_dataset
from longtail.metrics import evaluate
from longtail.objectives import PropensityModel

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
METRICS = ("P@1", "P@3", "P@5", "PSP@1", "PSP@3", "PSP@5")


@contextmanager
def common_data(recipe: str, data_root: Path) -> Iterator[tuple[Path, Any, Any]]:
    """A folder with X, Y and X_test of a recipe as .npz files, and the two datasets."""
    features = prepared(read_recipe(ROOT / recipe), data_root, ROOT / ".cache" / "features")
    train, test = read_dataset(features / "train"), read_dataset(features / "test")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for part, matrix in (("X", train.X), ("Y", train.Y), ("X_test", test.X)):
            sparse.save_npz(folder / f"{part}.npz", matrix, compressed=False)
        yield folder, train, test


def run(python: str, worker: str, folder: Path, *arguments: str) -> dict[str, float]:
    """Times, size and peak memory of one system; its ranking lies in the folder afterwards."""
    command = [python, str(HERE / f"{worker}_worker.py"), str(folder), *arguments]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = os.environ | {"PYTHONWARNINGS": "ignore"}
    with tempfile.TemporaryFile("w+") as messages:  # progress bars of peers would bury the tables
        child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=messages, text=True, env=environment)
        assert child.stdout is not None
        lines = child.stdout.read().strip().splitlines()
        # wait4 gives the peak of this child alone; RUSAGE_CHILDREN would keep the largest of all children so far.
        _, status, usage = os.wait4(child.pid, 0)
        if status:
            messages.seek(0)
            raise SystemExit(f"{worker} failed with status {status}: {messages.read()[-2000:]}")
    cpu = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before.ru_utime
    return json.loads(lines[-1]) | {"peak_mb": usage.ru_maxrss / 1024, "cpu_s": cpu}


def scored(folder: Path, train: Any, test: Any) -> dict[str, float]:
    """The metrics of the ranking in the folder, all systems by the same code."""
    ranked = Predictions.from_csr(sparse.load_npz(folder / "ranked.npz"), 5)
    counts = np.pad(train.label_counts, (0, test.n_labels - train.n_labels))  # test labels that training lacks
    inverse = PropensityModel().inverse(counts, train.n_points)
    found = evaluate(ranked, test.Y, inverse_propensities=inverse, ks=(1, 3, 5))
    return {name: found[name] for name in METRICS}


def compare(
    systems: dict[str, tuple[str, ...]], recipe: str, data_root: Path, *, rounds: int = 1
) -> dict[str, dict[str, Any]]:
    """Each system (python, worker, arguments...) on the recipe's data, in this order.

    With several rounds the systems take turns, and every figure is the median; `train_s_of_rounds` has each.
    """
    found: dict[str, list[dict[str, float]]] = {name: [] for name in systems}
    with common_data(recipe, data_root) as (folder, train, test):
        for _ in range(rounds):
            for name, (python, worker, *arguments) in systems.items():
                print(f"{name} ...", file=sys.stderr, flush=True)
                found[name].append(run(python, worker, folder, *arguments) | scored(folder, train, test))
    rows: dict[str, dict[str, Any]] = {}
    for name, measured in found.items():
        rows[name] = {key: float(np.median([row[key] for row in measured])) for key in measured[0]}
        rows[name]["train_s_of_rounds"] = [row["train_s"] for row in measured]
    return rows


def table(rows: dict[str, dict[str, Any]], baseline: str) -> str:
    """A Markdown table with ratios of training and prediction time to the baseline."""
    header = ["system", *METRICS, "train s", "x", "predict s", "x", "p50 ms", "p99 ms", "model MB", "peak MB"]
    lines = ["| " + " | ".join(header) + " |", "| --- |" + " ---: |" * (len(header) - 1)]
    base = rows.get(baseline)
    for name, row in rows.items():
        cells = [f"{row[metric]:.2f}" for metric in METRICS]
        for key in ("train_s", "predict_s"):
            cells += [f"{row[key]:.2f}", f"{row[key] / base[key]:.2f}" if base else "–"]
        cells += [f"{row[key]:.2f}" for key in ("single_p50_ms", "single_p99_ms")]
        cells += [f"{row['model_mb']:.1f}", f"{row['peak_mb']:.0f}"]
        lines.append("| " + " | ".join([name, *cells]) + " |")
    return "\n".join(lines)


def machine() -> str:
    return f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
