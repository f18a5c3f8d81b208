"""Why a label tree is better or worse than those of PECOS and omikuji: one setting changed at a time.

    python -m benchmarks.trees.settings --dataset delicious [--trees 3] [--points 0] [--folds 5] [--seeds 0 1 2]
                                        [--pecos-python P] [--omikuji-python P]

Trains on all folds but one of a dataset's training part, or of a sample of its points, and measures on the other one;
the test part is not read. Every figure is a mean over folds and seeds. Differences are to Parabel with its defaults on
the same folds, each with its standard error, which is that of a mean over the folds; omikuji has no seed and runs as
often as there are seeds, PECOS, which always makes the same tree, once per fold. One thread. Systems that are not
measured again keep what the file has of them: the folds are the same. Writes
docs/lab/benchmarks/label-tree-settings-DATASET.json.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from benchmarks.common import add_out, load, markdown_table, save
from benchmarks.common.data import add_data_root, features_of, recipe_named
from benchmarks.common.metrics import FEWER
from benchmarks.peers import add_peers, peers_of, run, scored, stored
from longtail import Parabel
from longtail.data import Dataset

DEFAULTS = "Parabel"
CHANGES: dict[str, dict[str, Any]] = {
    DEFAULTS: {},
    "binary": {"n_children": 2},
    "tol 0.1": {"tol": 0.1},
    "power 2": {"power": 2},
    "all three": {"n_children": 2, "tol": 0.1, "power": 2},
    "bias 0.5": {"bias": 0.5},
    "bias 1": {"bias": 1.0},
    "prune 0": {"prune": 0.0},
}
Figures = dict[str, list[list[float]]]  # per measure, one list per fold


def main() -> None:
    options = arguments()
    train, _ = features_of(recipe_named(f"{options.dataset}/dismec"), options.data_root)
    name = f"label-tree-settings-{options.dataset}"
    again = {*options.only, *peers_of(options)}
    before = load(name, options.out)
    kept = {k: v for k, v in before.get("rows", {}).items() if k not in again}
    found: dict[str, Figures] = {}
    for learning, held_out in folds(train, options.points, options.folds):
        with stored(learning, held_out) as folder:
            for system, figures in measured(folder, learning, held_out, options):
                for measure in FEWER:
                    found.setdefault(system, {}).setdefault(measure, []).append(figures[measure])
        print(table(found), flush=True)
    found = kept | found
    content = {"trees": options.trees, "folds": options.folds, "table": table(found), "rows": found}
    if kept:
        content["note"] = f"{', '.join(kept)}: as measured at commit {before['commit']}"
    save(name, content, command(options), folder=options.out)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dataset", default="delicious")
    add_data_root(parser)
    add_peers(parser)
    parser.add_argument("--only", nargs="*", default=list(CHANGES), choices=list(CHANGES))
    parser.add_argument("--trees", type=int, default=3)
    parser.add_argument("--points", type=int, default=0, help="draw so many points first; 0 for all")
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    add_out(parser)
    return parser.parse_args()


def folds(data: Dataset, n_points: int, n_folds: int) -> Iterator[tuple[Dataset, Dataset]]:
    """Give the points to learn from and those held out, of each fold."""
    drawn = np.random.default_rng(0).permutation(data.n_points)[: n_points or None]
    for fold in range(n_folds):
        held_out = np.arange(drawn.size) % n_folds == fold
        yield data.subset(drawn[~held_out]), data.subset(drawn[held_out])


def measured(
    folder: Path, learning: Dataset, held_out: Dataset, options: argparse.Namespace
) -> Iterator[tuple[str, dict[str, list[float]]]]:
    """Give the measures of every system on one fold, one figure per seed."""
    for name, (python, worker) in peers_of(options).items():
        runs = []
        for _ in options.seeds if worker == "omikuji" else [0]:
            run(python, worker, folder)
            runs.append(scored(folder, learning, held_out))
        yield name, {measure: [one[measure] for one in runs] for measure in FEWER}
    for name in options.only:
        runs = []
        for seed in options.seeds:
            model = Parabel(n_trees=options.trees, random_state=seed, n_jobs=1, **CHANGES[name])
            ranked = model.fit(learning.X, learning.Y).predict(held_out.X, k=5)
            sparse.save_npz(folder / "ranked.npz", ranked.to_csr(learning.n_labels))
            runs.append(scored(folder, learning, held_out))
        yield name, {measure: [one[measure] for one in runs] for measure in FEWER}


def table(found: dict[str, Figures]) -> str:
    """Return means, and differences to the defaults with their standard errors."""
    cells = []
    for name, figures in found.items():
        cells.append([name])
        for measure in FEWER:
            if measure not in figures:
                cells[-1].append("–")
                continue
            by_fold = np.array([np.mean(runs) for runs in figures[measure]])
            text = f"{by_fold.mean():.2f}"
            if name != DEFAULTS and DEFAULTS in found:
                apart = by_fold - [np.mean(runs) for runs in found[DEFAULTS][measure]]
                error = f" ± {apart.std(ddof=1) / np.sqrt(apart.size):.2f}" if apart.size > 1 else ""
                text += f" ({apart.mean():+.2f}{error})"
            cells[-1].append(text)
    return markdown_table(["system", *FEWER], cells)


def command(options: argparse.Namespace) -> str:
    text = f"python -m benchmarks.trees.settings --dataset {options.dataset} --trees {options.trees}"
    text += f" --points {options.points} --folds {options.folds} --seeds {' '.join(map(str, options.seeds))}"
    return text + (f" --only {' '.join(map(repr, options.only))}" if options.only != list(CHANGES) else "")


if __name__ == "__main__":
    main()
