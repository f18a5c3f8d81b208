"""Peak memory of training DiSMEC above the loaded data, measured, beside the formula of docs/dismec.md.

    python -m benchmarks.linear.memory [--points 50000 --features 50000 --labels 2000 --per-point 50] [--threads 1 2]
    python -m benchmarks.linear.memory --eurlex [--data-root ../shared/data]

Each measurement runs in its own process: the data is loaded, kernels are compiled on a few points, and the growth
of the peak resident memory from there on is what training took. Made-up data is random: its labels cannot be
learned, which makes for large models and is the harder case. The figures of docs/dismec.md come from what it prints.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from benchmarks.common import memory
from benchmarks.common.data import add_data_root, features_folder, recipe_named
from benchmarks.common.process import measured_apart
from longtail.bench.prepare import MissingData
from longtail.data import Dataset, read_dataset, write_dataset
from longtail.linear.simd import BLOCK


def formula(n_points: int, n_features: int, nnz: int, label_nnz: int, threads: int, model_nnz: int) -> dict[str, float]:
    """Return bytes, part by part; see docs/dismec.md."""
    return {
        "working copy of X": 8 * nnz + 16 * n_points + 8 * n_points,  # + row starts, norms, weights, order, positions
        "Y by label": 8 * label_nnz,
        "blocks": threads * BLOCK * 4 * (n_points + n_features),
        "model while it is put together": 2 * 8 * model_nnz,
    }


def random_data(n_points: int, n_features: int, n_labels: int, per_point: int, folder: Path) -> None:
    rng = np.random.default_rng(0)
    words = (rng.random((n_points, per_point)) ** 3 * n_features).astype(np.int32)  # some words are frequent
    X = sparse.csr_matrix(
        (np.full(words.size, per_point**-0.5, np.float32), words.ravel(), np.arange(0, words.size + 1, per_point)),
        shape=(n_points, n_features),
    )
    X.sum_duplicates()
    labels = (rng.random((n_points, 4)) ** 4 * n_labels).astype(np.int32)
    Y = sparse.csr_matrix(
        (np.ones(labels.size, np.float32), labels.ravel(), np.arange(0, labels.size + 1, 4)), shape=(n_points, n_labels)
    )
    Y.sum_duplicates()
    Y.data[:] = 1
    write_dataset(Dataset(X=X, Y=Y), folder)


def measure(folder: Path, threads: int) -> dict[str, Any]:
    from longtail import DiSMEC

    data = read_dataset(folder)
    X, Y = (sparse.csr_matrix(matrix, copy=True) for matrix in (data.X, data.Y))  # in memory, not mapped
    DiSMEC(n_jobs=threads).fit(X[:300], Y[:300])  # compiles, or loads from the cache
    before = memory.resident()
    memory.reset_peak()
    model = DiSMEC(n_jobs=threads).fit(X, Y)
    growth = memory.peak() - before
    parts = formula(*X.shape, X.nnz, Y.nnz, threads, model.weights_.nnz)
    return {"measured": growth, "parts": parts, "model": 8 * model.weights_.nnz, "data": 8 * (X.nnz + Y.nnz)}


def report(name: str, folder: Path, threads: int) -> None:
    found = measured_apart(__spec__.name, "--measure", folder, threads)
    total = sum(found["parts"].values())
    print(f"{name}, {threads} threads (data {found['data'] / 1e6:.0f} MB, model {found['model'] / 1e6:.0f} MB)")
    for part, size in found["parts"].items():
        print(f"    {part:32} {size / 1e6:8.0f} MB")
    print(f"    {'formula':32} {total / 1e6:8.0f} MB")
    print(f"    {'measured':32} {found['measured'] / 1e6:8.0f} MB   ({found['measured'] / total:.2f} x)", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--points", type=int, default=50_000)
    parser.add_argument("--features", type=int, default=50_000)
    parser.add_argument("--labels", type=int, default=2_000)
    parser.add_argument("--per-point", type=int, default=50)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--eurlex", action="store_true", help="EURLEX57K instead of made-up data")
    add_data_root(parser)
    parser.add_argument("--measure", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        print(json.dumps(measure(Path(arguments.measure[0]), int(arguments.measure[1]))))
        return 0
    with tempfile.TemporaryDirectory() as temporary:
        if arguments.eurlex:
            name = "EURLEX57K"
            try:
                folder = features_folder(recipe_named("eurlex57k/dismec"), arguments.data_root) / "train"
            except MissingData as error:
                print(f"not run: {error}")
                return 2
        else:
            sizes = (arguments.points, arguments.features, arguments.labels, arguments.per_point)
            name, folder = "{:,} points, {:,} features, {:,} labels, {} per point".format(*sizes), Path(temporary) / "d"
            random_data(*sizes, folder)
        for threads in arguments.threads:
            report(name, folder, threads)
    return 0


if __name__ == "__main__":
    sys.exit(main())
