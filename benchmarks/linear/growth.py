"""How DiSMEC grows with the data: seconds, memory and model up to a million points and half a million labels.

    python -m benchmarks.linear.growth [--labels 20000 100000 500000] [--weighting none]

Made-up data (`benchmarks.linear.gpu_sets`): two points per label, five labels per point, and features that grow with
the square root of the labels, as vocabularies do. Every size runs in its own process, with the library's defaults; its
peak memory is stated with and without the data. For each size, CPU milliseconds per label are measured again for labels
with about 1, 2, 4, 8, ... points, by the solver that trains them. Writes docs/lab/benchmarks/growth-dismec.json and
docs/images/growth-dismec.png.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from benchmarks.common import add_out, decimals, image, markdown_table, save
from benchmarks.common.metrics import FIRST, measured
from benchmarks.common.process import measured_apart
from benchmarks.common.size import megabytes
from benchmarks.linear.gpu_sets import Size, made_up
from longtail import DiSMEC
from longtail.bench import memory
from longtail.linear.blocks import label_blocks
from longtail.linear.rare import GROUP, WorkingSetSolver, rare_labels
from longtail.linear.solver import BlockSolver
from longtail.objectives import resolve_weighting

TEST_POINTS = 10_000
MB = 2**20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--labels", type=int, nargs="+", default=[20_000, 100_000, 500_000])
    parser.add_argument("--weighting", default="none")
    add_out(parser)
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    weighting = None if options.weighting == "none" else options.weighting
    if options.one:
        print(json.dumps(measure(options.one, weighting)))
        return
    rows = []
    for n_labels in options.labels:
        rows.append(measured_apart(__spec__.name, "--weighting", options.weighting, "--one", n_labels))
        print({name: value for name, value in rows[-1].items() if name != "per_label"}, flush=True)
    text = table(rows)
    print(text)
    sizes = " ".join(map(str, options.labels))
    command = f"python -m benchmarks.linear.growth --labels {sizes} --weighting {options.weighting}"
    name = "growth-dismec" if weighting is None else f"growth-dismec-{weighting}"
    save(name, {"table": text, "rows": rows}, command, folder=options.out)
    draw(rows, image(f"{name}.png", options.out))


def measure(n_labels: int, weighting: str | None) -> dict[str, Any]:
    """Train DiSMEC on made-up data of this size, in this process."""
    size = Size(2 * n_labels, int(300 * np.sqrt(n_labels)), n_labels, max(n_labels // 33, 1), 5.0, 60)
    X, Y, X_test, Y_test = made_up(size, TEST_POINTS)
    few = slice(0, 500)
    DiSMEC(weighting=weighting).fit(X[few], Y[few]).predict(X_test[few])  # compiles the kernels
    data_mb = memory.resident() / MB
    memory.reset_peak()
    started, cpu = time.perf_counter(), time.process_time()
    model = DiSMEC(weighting=weighting).fit(X, Y)
    trained, cpu = time.perf_counter(), time.process_time() - cpu
    training_mb = memory.peak() / MB - data_mb
    ranked = model.predict(X_test, k=5)
    predicted = time.perf_counter()
    found = measured(ranked, Y_test, model.label_counts_, model.n_points_)
    return {
        "labels": int((model.label_counts_ > 0).sum()), "points": X.shape[0], "features": X.shape[1],
        "nonzeros": int(X.nnz), "positives": int(Y.nnz), "rare": int(rare_labels(Y, model.loss).sum()),
        "train_s": trained - started, "train_cpu_s": cpu, "predict_ms": 1e3 * (predicted - trained) / TEST_POINTS,
        "data_mb": data_mb, "training_mb": training_mb, "model_mb": megabytes(model),
        "per_label": cost_per_label(model, X, Y),
    } | {name: found[name] for name in FIRST}  # fmt: skip


def cost_per_label(model: DiSMEC, X: sparse.csr_matrix, Y: sparse.csr_matrix) -> list[dict[str, Any]]:
    """CPU milliseconds of labels with about 1, 2, 4, ... points, by the solver that `fit` used for them."""
    counts = model.label_counts_
    own, _ = resolve_weighting(model.weighting).coefficients(counts, model.n_points_)
    rare = rare_labels(Y, model.loss)
    settings: dict[str, Any] = {"positive_weights": own, "seed": model.random_state}
    full = BlockSolver(X, Y, model.solver_options(), **settings)
    sets = WorkingSetSolver(X, Y, model.solver_options(), **settings) if rare.any() else full
    frequent = np.flatnonzero(~rare & (counts > 0))
    blocks = [frequent[block] for block in label_blocks(X, sparse.csr_matrix(Y[:, frequent]), seed=model.random_state)]
    rows = []
    for least in 2 ** np.arange(0, int(np.log2(counts.max())) + 1):
        inside = np.flatnonzero(rare & (counts >= least) & (counts < 2 * least))
        if inside.size:
            chosen, solver, trainer = inside[:GROUP], "working sets", sets
        else:
            near = [block for block in blocks if least <= np.median(counts[block]) < 2 * least]
            if not near:
                continue
            chosen, solver, trainer = near[len(near) // 2], "full", full
        started = time.process_time()
        trainer.train(chosen)
        spent = 1e3 * (time.process_time() - started) / chosen.size
        rows.append({"points": float(counts[chosen].mean()), "solver": solver, "cpu_ms": spent})
    return rows


def table(rows: list[dict[str, Any]]) -> str:
    header = ["points", "labels", "rare", "features", "train s", "CPU s", "predict ms per point", "data MB"]
    header += ["training MB above it", "model MB", *FIRST]
    lines = []
    for row in rows:
        cells = [f"{row[name]:,}" for name in ("points", "labels", "rare", "features")]
        cells += [f"{row['train_s']:,.0f}", f"{row['train_cpu_s']:,.0f}", f"{row['predict_ms']:.2f}"]
        cells += [f"{row[name]:,.0f}" for name in ("data_mb", "training_mb", "model_mb")]
        lines.append([*cells, *decimals(row, FIRST, 1)])
    return markdown_table(header, lines, left=())


def draw(rows: list[dict[str, Any]], path: Path) -> None:
    import matplotlib.pyplot as plt

    figure, axis = plt.subplots(figsize=(6.4, 3.8), constrained_layout=True)
    for number, row in enumerate(rows):
        for solver, marker in (("working sets", "o"), ("full", "s")):
            chosen = [entry for entry in row["per_label"] if entry["solver"] == solver]
            points, spent = ([entry[name] for entry in chosen] for name in ("points", "cpu_ms"))
            axis.loglog(points, spent, f"{marker}-", color=f"C{number}", label=f"{row['points']:,} points, {solver}")
    axis.set(xlabel="training points of a label", ylabel="CPU ms per label")
    axis.grid(alpha=0.3)
    axis.legend(frameon=False, fontsize=8)
    figure.savefig(path, dpi=120)


if __name__ == "__main__":
    main()
