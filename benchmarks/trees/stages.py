"""What the stages of one label tree cost: clustering, node training, packing, and search.

    python -m benchmarks.trees.stages [--dataset debian-depends] [--dev] [--children 2 16]

One tree per row: Parabel with each number of children, then Bonsai. CPU seconds of all threads stand beside wall
seconds, so that figures from a busy machine can still be compared. Precision is that of the test file, with `--dev` of
the dev file, by which settings are chosen. Writes docs/lab/benchmarks/label-tree-stages-DATASET.json.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from benchmarks.common import add_out, decimals, markdown_table, save
from benchmarks.common.data import add_data_root, features_of, recipe_named
from benchmarks.common.size import megabytes
from longtail import Bonsai, Parabel
from longtail.core.run import Run
from longtail.metrics import evaluate
from longtail.trees.label.models import LabelTreeModel

STAGES = ("representation", "clustering", "nodes and packing", "prediction")
PREDICTIONS = 3  # the fastest counts
METRICS = ("P@1", "P@3", "P@5")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dataset", default="debian-depends")
    parser.add_argument("--dev", action="store_true", help="measure precision on the dev file")
    parser.add_argument("--children", type=int, nargs="*", default=[2, 16], help="of Parabel's nodes")
    add_data_root(parser)
    add_out(parser)
    options = parser.parse_args()
    recipe = recipe_named(f"{options.dataset}/dismec")
    dev = recipe.test.replace("test", "dev") if options.dev else None
    train, test = features_of(recipe, options.data_root, test=dev)
    models: dict[str, LabelTreeModel] = {
        f"Parabel, {children} children": Parabel(n_trees=1, n_children=children) for children in options.children
    } | {"Bonsai": Bonsai(n_trees=1)}
    rows = {name: measured(model, train, test) for name, model in models.items()}
    text = table(rows)
    print(text)
    command = f"python -m benchmarks.trees.stages --dataset {options.dataset}" + (" --dev" if options.dev else "")
    save(f"label-tree-stages-{options.dataset}", {"table": text, "rows": rows}, command, folder=options.out)


def measured(model: LabelTreeModel, train: Any, test: Any) -> dict[str, Any]:
    """Train one tree stage by stage, as `fit` does, and return [wall, CPU] seconds of each; precision and size."""
    few = slice(0, 500)
    model.fit(train.X[few], train.Y[few]).predict(test.X[few])  # compiles the kernels; the tree is replaced below
    seconds: dict[str, list[float]] = {}
    with_points = train.label_counts > 0
    with timed(seconds, "representation"):
        plan = model._plan(train.X, train.Y, with_points)
    with timed(seconds, "clustering"):
        tree = plan(model._seed(0))
    with timed(seconds, "nodes and packing"):
        model.trees_ = [model._trained_tree(train.X, train.Y, tree, 0, Run())]
    for _ in range(PREDICTIONS):
        again: dict[str, list[float]] = {}
        with timed(again, "prediction"):
            ranked = model.predict(test.X, k=5)
        seconds["prediction"] = np.minimum(again["prediction"], seconds.get("prediction", np.inf)).tolist()
    found = evaluate(ranked, test.Y, ks=(1, 3, 5))
    return {"seconds": seconds, "nodes": tree.n_nodes, "model_mb": megabytes(model)} | {m: found[m] for m in METRICS}


@contextmanager
def timed(seconds: dict[str, list[float]], stage: str) -> Iterator[None]:
    """Keep wall and CPU seconds of what happens inside."""
    wall, cpu = time.perf_counter(), time.process_time()
    yield
    seconds[stage] = [time.perf_counter() - wall, time.process_time() - cpu]


def table(rows: dict[str, dict[str, Any]]) -> str:
    """Return a Markdown table: per stage, wall seconds and CPU seconds of all threads."""
    header = ["one tree of", "nodes", *(f"{stage} s (CPU)" for stage in STAGES), *METRICS, "model MB"]
    cells = []
    for name, row in rows.items():
        times = (row["seconds"][stage] for stage in STAGES)
        cells.append([name, str(row["nodes"]), *(f"{wall:.2f} ({cpu:.2f})" for wall, cpu in times)])
        cells[-1] += [*decimals(row, METRICS), *decimals(row, ("model_mb",), 1)]
    return markdown_table(header, cells)


if __name__ == "__main__":
    main()
