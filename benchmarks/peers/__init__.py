"""Systems side by side: the same files, one after the other, each in its own process.

Peers run only when a Python that has them is named; nothing is installed. In environments of their own:
    pip install 'numpy<2' 'scipy<1.14' scikit-learn && pip install --no-deps libpecos
    pip install omikuji numpy scipy
"""

from __future__ import annotations

import argparse
import json
import os
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

from benchmarks.common.data import features_of
from benchmarks.common.metrics import METRICS, measured
from benchmarks.common.tables import decimals, markdown_table
from longtail.bench.recipe import Recipe
from longtail.core.predictions import Predictions

HERE = Path(__file__).parent


def add_peers(parser: argparse.ArgumentParser) -> None:
    """Add the options that name the Pythons of peers."""
    parser.add_argument("--pecos-python", metavar="PYTHON")
    parser.add_argument("--omikuji-python", metavar="PYTHON")


def peers_of(options: argparse.Namespace) -> dict[str, tuple[str, ...]]:
    """Return the peers that are to run, in the form that `compare` takes."""
    systems: dict[str, tuple[str, ...]] = {}
    if options.pecos_python:
        systems["PECOS XR-Linear"] = (options.pecos_python, "pecos")
    if options.omikuji_python:
        systems["omikuji, 3 trees"] = (options.omikuji_python, "omikuji")
    return systems


@contextmanager
def common_data(recipe: Recipe, data_root: Path | None) -> Iterator[tuple[Path, Any, Any]]:
    """Give a folder with X, Y and X_test of a recipe as .npz files, and the two datasets."""
    train, test = features_of(recipe, data_root)
    with stored(train, test) as folder:
        yield folder, train, test


@contextmanager
def stored(train: Any, test: Any) -> Iterator[Path]:
    """Give a folder with X, Y and X_test of two datasets as .npz files, as workers read them."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for part, matrix in (("X", train.X), ("Y", train.Y), ("X_test", test.X)):
            sparse.save_npz(folder / f"{part}.npz", matrix, compressed=False)
        yield folder


def run(python: str, worker: str, folder: Path, *arguments: str) -> dict[str, float]:
    """Return times and size of one system; its ranking lies in the folder afterwards."""
    command = [python, str(HERE / f"{worker}_worker.py"), str(folder), *arguments]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = os.environ | {"PYTHONWARNINGS": "ignore"}
    with tempfile.TemporaryFile("w+") as messages:  # progress bars of peers would bury the tables
        child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=messages, text=True, env=environment)
        assert child.stdout is not None
        lines = child.stdout.read().strip().splitlines()
        status = child.wait()
        if status:
            messages.seek(0)
            raise SystemExit(f"{worker} failed with status {status}: {messages.read()[-2000:]}")
    cpu = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before.ru_utime
    return json.loads(lines[-1]) | {"cpu_s": cpu}


def scored(folder: Path, train: Any, test: Any) -> dict[str, float]:
    """Return the metrics of the ranking in the folder, by the same code for all systems."""
    ranked = Predictions.from_csr(sparse.load_npz(folder / "ranked.npz"), 5)
    return measured(ranked, test.Y, train.label_counts, train.n_points, digits=6)


def compare(
    systems: dict[str, tuple[str, ...]], recipe: Recipe, data_root: Path | None, *, rounds: int = 1
) -> dict[str, dict[str, Any]]:
    """Measure each system (python, worker, arguments...) on the recipe's data, in this order.

    With several rounds the systems take turns, and every figure is the median; `train_s_of_rounds` has each.
    """
    found: dict[str, list[dict[str, float]]] = {name: [] for name in systems}
    with common_data(recipe, data_root) as (folder, train, test):
        for _ in range(rounds):
            for name, (python, worker, *arguments) in systems.items():
                print(f"{name} ...", file=sys.stderr, flush=True)
                found[name].append(run(python, worker, folder, *arguments) | scored(folder, train, test))
    rows: dict[str, dict[str, Any]] = {}
    for name, taken in found.items():
        rows[name] = {key: float(np.median([row[key] for row in taken])) for key in taken[0]}
        rows[name]["train_s_of_rounds"] = [row["train_s"] for row in taken]
    return rows


def table(rows: dict[str, dict[str, Any]], baseline: str) -> str:
    """Return a Markdown table with ratios of training and prediction time to the baseline."""
    header = ["system", *METRICS, "train s", "x", "predict s", "x", "p50 ms", "p99 ms", "model MB"]
    base, cells = rows.get(baseline), []
    for name, row in rows.items():
        cells.append([name, *decimals(row, METRICS)])
        for key in ("train_s", "predict_s"):
            cells[-1] += [f"{row[key]:.2f}", f"{row[key] / base[key]:.2f}" if base else "–"]
        cells[-1] += decimals(row, ("single_p50_ms", "single_p99_ms"))
        cells[-1] += decimals(row, ("model_mb",), 1)
    return markdown_table(header, cells)
