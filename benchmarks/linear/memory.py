"""Peak memory of training DiSMEC above the loaded data, measured, beside the formula of docs/dismec.md.

    python -m benchmarks.linear.memory [--points 50000 --features 50000 --labels 2000 --per-point 50] [--threads 1 2]
    python -m benchmarks.linear.memory --eurlex [--data-root ../shared/data]

Each measurement runs in its own process: the data is loaded, kernels are compiled on a few points, and the growth
of the peak resident memory from there on is what training took. Made-up data is random: its labels cannot be
learned, which makes for large models and is the harder case. Writes docs/lab/benchmarks/dismec-memory-random.json, or
dismec-memory-eurlex57k.json.
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

from benchmarks.common import add_out, markdown_table, save
from benchmarks.common.data import add_data_root, features_folder, recipe_named
from benchmarks.common.process import measured_apart
from longtail.bench import memory
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
    return {
        "points": X.shape[0], "features": X.shape[1], "labels": Y.shape[1], "threads": threads,
        "data_mb": 8 * (X.nnz + Y.nnz) / 1e6, "model_mb": 8 * model.weights_.nnz / 1e6,
        "formula_mb": sum(parts.values()) / 1e6, "measured_mb": growth / 1e6,
        "parts_mb": {name: size / 1e6 for name, size in parts.items()},
    }  # fmt: skip


def report(row: dict[str, Any]) -> None:
    print(f"{row['threads']} threads (data {row['data_mb']:.0f} MB, model {row['model_mb']:.0f} MB)")
    for part, size in row["parts_mb"].items():
        print(f"    {part:32} {size:8.0f} MB")
    total, measured = row["formula_mb"], row["measured_mb"]
    print(f"    {'formula':32} {total:8.0f} MB")
    print(f"    {'measured':32} {measured:8.0f} MB   ({measured / total:.2f} x)", flush=True)


def table(rows: list[dict[str, Any]]) -> str:
    header = ["points", "features", "labels", "X, Y: MB", "model MB", "threads", "formula MB", "measured MB"]
    names = ("points", "features", "labels", "data_mb", "model_mb", "threads", "formula_mb", "measured_mb")
    return markdown_table(header, [[f"{row[name]:,.0f}" for name in names] for row in rows], left=())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--points", type=int, default=50_000)
    parser.add_argument("--features", type=int, default=50_000)
    parser.add_argument("--labels", type=int, default=2_000)
    parser.add_argument("--per-point", type=int, default=50)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--eurlex", action="store_true", help="EURLEX57K instead of made-up data")
    add_data_root(parser)
    add_out(parser)
    parser.add_argument("--measure", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        print(json.dumps(measure(Path(arguments.measure[0]), int(arguments.measure[1]))))
        return 0
    with tempfile.TemporaryDirectory() as temporary:
        if arguments.eurlex:
            name, given = "EURLEX57K", "--eurlex"
            try:
                folder = features_folder(recipe_named("eurlex57k/dismec"), arguments.data_root) / "train"
            except MissingData as error:
                print(f"not run: {error}")
                return 2
        else:
            sizes = (arguments.points, arguments.features, arguments.labels, arguments.per_point)
            name, folder = "made up", Path(temporary) / "d"
            given = "--points {} --features {} --labels {} --per-point {}".format(*sizes)
            random_data(*sizes, folder)
        rows = []
        for threads in arguments.threads:
            rows.append(measured_apart(__spec__.name, "--measure", folder, threads))
            report(rows[-1])
    command = f"python -m benchmarks.linear.memory {given} --threads {' '.join(map(str, arguments.threads))}"
    content = {"data": name, "rows": rows, "table": table(rows)}
    save(f"dismec-memory-{'eurlex57k' if arguments.eurlex else 'random'}", content, command, folder=arguments.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
