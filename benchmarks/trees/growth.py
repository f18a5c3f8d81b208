"""How training of a label tree grows with the number of labels: time and memory from 10^4 to 10^6 labels.

    python -m benchmarks.trees.growth [--labels 10000 100000 1000000] [--model parabel]

Made-up data (`longtail.data.make_longtail`): as many points as labels, and features that grow with the square root of
the labels, as vocabularies do. Every size runs in its own process; its peak memory is stated with and without the data.
The slope is that of log(time) against log(labels): 1 is linear. Writes docs/lab/benchmarks/growth-MODEL.json and
docs/images/growth.png.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common import add_out, image, markdown_table, save
from benchmarks.common.process import measured_apart
from benchmarks.common.size import megabytes
from longtail.bench import memory
from longtail.core.registry import estimator_class
from longtail.data import make_longtail
from longtail.metrics import evaluate

TEST_POINTS = 2000
MB = 2**20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--labels", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--model", default="parabel", choices=("parabel", "bonsai"))
    add_out(parser)
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure(options.one, options.model)))
        return
    rows = []
    for n_labels in options.labels:
        rows.append(measured_apart(__spec__.name, "--model", options.model, "--one", n_labels))
        print(rows[-1], flush=True)
    slopes = {name: slope(rows, name) for name in ("train_s", "training_mb", "model_mb")}
    text = table(rows) + "\n\n" + sentence(slopes)
    print(text)
    command = f"python -m benchmarks.trees.growth --model {options.model}"
    save(f"growth-{options.model}", {"table": text, "rows": rows, "slopes": slopes}, command, folder=options.out)
    draw(rows, slopes, options.model, image("growth.png", options.out))


def measure(n_labels: int, model_name: str) -> dict[str, Any]:
    """Train one tree on made-up data of this size, in this process."""
    n_features = int(300 * np.sqrt(n_labels))
    made = make_longtail(n_labels, n_features, n_labels, n_test_points=TEST_POINTS)
    make = estimator_class(model_name)
    few = slice(0, 500)
    make(n_trees=1).fit(made.train.X[few], made.train.Y[few]).predict(made.test.X[few])  # compiles the kernels
    data_mb = memory.resident() / MB
    memory.reset_peak()
    started = time.perf_counter()
    model = make(n_trees=1).fit(made.train.X, made.train.Y)
    trained = time.perf_counter()
    ranked = model.predict(made.test.X, k=5)
    predicted = time.perf_counter()
    found = evaluate(ranked, made.test.Y, ks=(1, 5))
    return {
        "labels": n_labels,
        "points": made.train.n_points,
        "features": n_features,
        "nonzeros": int(made.train.X.nnz),
        "train_s": trained - started,
        "predict_ms": 1e3 * (predicted - trained) / TEST_POINTS,
        "data_mb": data_mb,
        "training_mb": memory.peak() / MB - data_mb,
        "model_mb": megabytes(model),
        "P@1": found["P@1"],
    }


def slope(rows: list[dict[str, Any]], name: str) -> float:
    labels, values = (np.log([row[key] for row in rows]) for key in ("labels", name))
    return float(np.polyfit(labels, values, 1)[0]) if len(rows) > 1 else float("nan")


def sentence(slopes: dict[str, float]) -> str:
    return (
        f"Growth as labels^s: training time s = {slopes['train_s']:.2f}, memory of training above the data "
        f"s = {slopes['training_mb']:.2f}, model s = {slopes['model_mb']:.2f}."
    )


def table(rows: list[dict[str, Any]]) -> str:
    header = ["labels", "points", "features", "train s", "predict ms per point", "data MB", "training MB above it"]
    header += ["model MB", "P@1"]
    lines = []
    for row in rows:
        cells = [f"{row['labels']:,}", f"{row['points']:,}", f"{row['features']:,}", f"{row['train_s']:.1f}"]
        cells += [f"{row['predict_ms']:.2f}", f"{row['data_mb']:.0f}", f"{row['training_mb']:.0f}"]
        cells += [f"{row['model_mb']:.1f}", f"{row['P@1']:.1f}"]
        lines.append(cells)
    return markdown_table(header, lines, left=())


def draw(rows: list[dict[str, Any]], slopes: dict[str, float], model: str, path: Path) -> None:
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(8, 3.4), constrained_layout=True)
    labels = [row["labels"] for row in rows]
    for axis, name, title in (
        (axes[0], "train_s", "training time, s"),
        (axes[1], "training_mb", "memory of training above the data, MB"),
    ):
        values = [row[name] for row in rows]
        axis.loglog(labels, values, "o-", label=f"{model}, one tree: slope {slopes[name]:.2f}")
        axis.loglog(labels, [values[0] * n / labels[0] for n in labels], "k:", label="slope 1")
        axis.set(xlabel="labels (and points)", title=title)
        axis.legend(frameon=False)
    figure.savefig(path, dpi=120)


if __name__ == "__main__":
    main()
