"""GLaS with one setting changed at a time: tables 1 and 2 of Guo et al. (NeurIPS 2019), on other data.

    python -m benchmarks.neural.glas_ablation --name NAME [--recipe eurlex57k/glas] [--held-out 15000]
                                              [--set width=256] [--only regulariser ...] [--seeds 0 1 2]

Trains on the training part of a recipe of GLaS, with its parameters, and measures on the test part; with `--held-out`
on so many of the training points, drawn at random, and the test part is not read. Runs on a GPU where there is one.
Train P@1 is that of the first training points, as many as there are test points, without input dropout. With several
seeds every figure is their mean. Writes docs/lab/benchmarks/glas-NAME.json.
"""

from __future__ import annotations

import argparse
import subprocess
import threading
import time
from typing import Any

import numpy as np
import torch

from benchmarks.common import add_out, markdown_table, save
from benchmarks.common.data import add_data_root, features_of, recipe_named
from benchmarks.common.metrics import METRICS, measured
from benchmarks.common.settings import settings
from longtail.bench.machine import machine
from longtail.neural.glas import GLaS

# Settings in which the regulariser is compared with none; "points" trains on so many of the points, drawn at random.
WHERE: dict[str, dict[str, Any]] = {
    "defaults": {},
    "width 256": {"width": 256},
    "10 epochs": {"epochs": 10},
    "plain Adam": {"epsilon": 1e-8},
    "15,000 points": {"points": 15_000},
    "15,000 points, plain Adam": {"points": 15_000, "epsilon": 1e-8},
    "as in the paper": {
        "hidden": (1024,), "labels_per_point": "one", "batch_size": 4096, "loss": "negative-mining", "margin": 10.0,
        "epochs": 10, "learning_rate": 0.005, "epsilon": 1e-8, "strength": 10_000.0,
    },
}  # fmt: skip
# Each row of the tables: what it is about, and what it changes of the base setting.
STUDIES: dict[str, dict[str, dict[str, Any]]] = {
    "base": {"base": {}},
    "regulariser": {
        "none": {"regulariser": "none"},
        "glas": {"regulariser": "glas"},
        "spread-out": {"regulariser": "spread-out"},
        "gravity": {"regulariser": "gravity", "strength": 1.0},
    },
    "strength": {f"{s:g} x": {"strength": s} for s in (0.1, 0.3, 3.0, 10.0)},  # of the base's
    "input dropout": {f"keep {keep}": {"keep": keep} for keep in (1.0, 0.8, 0.6, 0.5, 0.4)},
    "batch": {str(size): {"batch_size": size} for size in (512, 1024, 2048, 4096)},
    "width": {str(width): {"width": width} for width in (128, 256, 512, 1024, 2048)},
    "network": {"ReLU, 1 hidden layer": {"hidden": (1024,)}, "ReLU, 2 hidden layers": {"hidden": (1024, 1024)}},
    "loss": {
        "one label per point": {"labels_per_point": "one"},
        "bce": {"loss": "bce"},
        "grank": {"loss": "grank"},
        "margin": {"loss": "margin", "margin": 10.0},
        "negative mining": {"loss": "negative-mining", "margin": 10.0},
    },
    "epochs": {str(epochs): {"epochs": epochs} for epochs in (1, 2, 3, 5, 8, 12)},
    "learning rate": {str(rate): {"learning_rate": rate} for rate in (0.0025, 0.005, 0.01, 0.02)},
    "average": {"of the second half's epochs": {"average_from": 0.5}},
    "precision": {"float32": {"precision": "float32"}},
    "where": {
        f"{title}: {name}": changes | {"regulariser": name}
        for title, changes in WHERE.items()
        for name in ("none", "glas")
    },
}
COLUMNS = (*METRICS, "train P@1", "gap", "s/epoch", "points/s", "GPU %")


def main() -> None:
    options = arguments()
    recipe = recipe_named(options.recipe)
    data = data_of(recipe, options)
    base = recipe.parameters | settings(options.set)
    strength = base.get("strength", GLaS().strength)
    rows: list[dict[str, Any]] = []
    print(f"{'':38}" + "".join(f"{column:>10}" for column in COLUMNS))
    measure(GLaS(**base | {"epochs": 1}), data)  # what the first run on a device loads is no setting's time
    for study, rows_of_study in STUDIES.items():
        for name, changes in rows_of_study.items():
            title = f"{study} {name}"
            if options.only and not any(title.startswith(wanted) for wanted in options.only):
                continue
            if study == "strength":
                changes = {"strength": strength * changes["strength"]}
            chosen = base | changes
            part = first_points(data, chosen.pop("points", None))
            runs = [measure(GLaS(**chosen | {"random_state": seed}), part) for seed in options.seeds]
            rows.append(row := {"study": study, "setting": name} | mean(runs))
            print(f"{title:38}" + "".join(f"{row.get(column, np.nan):10.2f}" for column in COLUMNS), flush=True)
            write(options, rows)


def data_of(recipe: Any, options: argparse.Namespace) -> dict[str, Any]:
    """Return X and Y to learn from, and Xt and Yt to measure on."""
    train, test = features_of(recipe, options.data_root)
    if options.held_out:
        drawn = np.random.default_rng(0).permutation(train.n_points)
        train, test = (train.subset(np.sort(part)) for part in np.split(drawn, [-options.held_out]))
    return {"X": train.X, "Y": train.Y, "Xt": test.X, "Yt": test.Y}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--recipe", default="eurlex57k/glas", help="whose data and parameters are taken")
    add_data_root(parser)
    parser.add_argument("--held-out", type=int, default=0, help="measure on so many of the training points")
    parser.add_argument("--set", nargs="*", default=[], metavar="KEY=VALUE", help="a parameter of the base setting")
    parser.add_argument("--only", nargs="*", default=[], help="rows whose title begins like this, e.g. regulariser")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0], help="every figure is the mean over these")
    parser.add_argument("--name", required=True, help="of the measurement file: glas-NAME.json")
    add_out(parser)
    return parser.parse_args()


def first_points(data: dict[str, Any], n_points: int | None) -> dict[str, Any]:
    """Return the data with so many of its training points, drawn at random; None for all."""
    if n_points is None:
        return data
    drawn = np.random.default_rng(0).permutation(data["X"].shape[0])[:n_points]
    return data | {part: data[part][drawn] for part in ("X", "Y")}


def measure(model: GLaS, data: dict[str, Any]) -> dict[str, Any]:
    """Train and test one setting."""
    X, Y, Xt, Yt = (data[part] for part in ("X", "Y", "Xt", "Yt"))
    with Utilisation() as busy:
        started = time.perf_counter()
        model.fit(X, Y)
        seconds = time.perf_counter() - started
    counts, seen = (model.label_counts_, model.n_points_), slice(0, Xt.shape[0])
    result: dict[str, Any] = dict(measured(model.predict(Xt, k=5), Yt, *counts, digits=3))
    result["train P@1"] = measured(model.predict(X[seen], k=5), Y[seen], *counts, digits=3)["P@1"]
    result["gap"] = result["train P@1"] - result["P@1"]
    epochs = [epoch["seconds"] for epoch in model.history_.epochs]
    result["s/epoch"] = float(np.median(epochs))
    result["points/s"] = X.shape[0] / result["s/epoch"]
    if np.isfinite(busy.mean):  # there is a GPU
        result["GPU %"] = busy.mean
    result["train s"] = seconds
    result["losses"] = [epoch["loss"] for epoch in model.history_.epochs]
    return result | {
        "parameters": {k: v for k, v in model.get_params().items() if isinstance(v, (int, float, str, tuple))}
    }


def mean(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the first run with its figures replaced by means over all, and P@1, PSP@1 and gap of each."""
    row = runs[0] | {column: float(np.mean([run[column] for run in runs])) for column in COLUMNS if column in runs[0]}
    return row | {"of each seed": {c: [run[c] for run in runs] for c in ("P@1", "PSP@1", "gap")}}


class Utilisation:
    """The mean of nvidia-smi's utilisation while something runs; NaN without a GPU."""

    def __enter__(self) -> Utilisation:
        self.samples: list[float] = []
        self.process = None
        if torch.cuda.is_available():
            command = ["nvidia-smi", "--query-gpu=utilization.gpu", "--format=csv,noheader,nounits", "-lms", "100"]
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
            self.thread = threading.Thread(target=self._read, daemon=True)
            self.thread.start()
        return self

    def _read(self) -> None:
        assert self.process is not None
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.samples.append(float(line))

    def __exit__(self, *_: object) -> None:
        if self.process is not None:
            self.process.terminate()
            self.process.wait()
            self.thread.join(timeout=2)

    @property
    def mean(self) -> float:
        return float(np.mean(self.samples)) if self.samples else float("nan")


def write(options: argparse.Namespace, rows: list[dict[str, Any]]) -> None:
    command = f"python -m benchmarks.neural.glas_ablation --name {options.name} {given(options)}".strip()
    where = f"{torch.cuda.get_device_name() if torch.cuda.is_available() else machine()}, torch {torch.__version__}"
    content = {"data": options.recipe, "seeds": len(options.seeds), "table": table(rows), "rows": rows}
    save(f"glas-{options.name}", content, command, folder=options.out, machine_name=where)


def given(options: argparse.Namespace) -> str:
    values = {
        "--recipe": [options.recipe],
        "--held-out": [options.held_out] if options.held_out else [],
        "--set": options.set,
        "--only": [f"'{title}'" for title in options.only],
        "--seeds": options.seeds,
    }
    return " ".join(f"{flag} {' '.join(map(str, words))}" for flag, words in values.items() if words)


def table(rows: list[dict[str, Any]]) -> str:
    """Return the Markdown table, without columns of what was not measured (GPU % without a GPU)."""
    columns = [column for column in COLUMNS if column in rows[0]]
    cells = []
    for row in rows:
        shown = [f"{row[c]:,.0f}" if c in ("points/s", "GPU %") else f"{row[c]:.2f}" for c in columns]
        cells.append([row["study"], row["setting"], *shown])
    return markdown_table(["study", "setting", *columns], cells, left=(0, 1))


if __name__ == "__main__":
    main()
