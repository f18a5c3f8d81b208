"""Parabel and Bonsai beside PECOS and omikuji, on the same files in one run; and how far to trust their scores.

    python -m benchmarks.trees.label_trees [--dataset eurlex57k] [--pecos-python P] [--omikuji-python P] [--calibration]

Peers: see benchmarks/peers. Writes docs/lab/benchmarks/label-trees-DATASET.json.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from benchmarks.common import add_out, save
from benchmarks.common.data import add_data_root, recipe_named
from benchmarks.peers import add_peers, common_data, compare, peers_of, table
from longtail import Bonsai, Parabel
from longtail.bench.recipe import Recipe
from longtail.core.predictions import Predictions

# max_leaf, max_depth and C as in the recipes of EURLEX57K (chosen on its dev split), with one tree and with three.
PARABEL = {"max_leaf": 200, "C": 1.5}
BONSAI = {"max_depth": 2, "C": 1.5}
OURS: dict[str, tuple[str, dict[str, Any]]] = {
    "Parabel, 1 tree": ("parabel", PARABEL | {"n_trees": 1}),
    "Bonsai, 1 tree": ("bonsai", BONSAI | {"n_trees": 1}),
    "Parabel, 3 trees": ("parabel", PARABEL),
    "Bonsai, 3 trees": ("bonsai", BONSAI),
    "Bonsai, 3 trees, PW-cb": ("bonsai", {"max_depth": 2, "n_children": 16, "weighting": "pw-cb"}),
}
BINS = 10


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dataset", default="eurlex57k")
    add_data_root(parser)
    add_peers(parser)
    parser.add_argument("--only", nargs="*", default=list(OURS), choices=list(OURS))
    parser.add_argument("--calibration", action="store_true", help="also measure the calibration of the scores")
    add_out(parser)
    options = parser.parse_args()
    data, systems = recipe_named(f"{options.dataset}/dismec"), peers_of(options)  # the features of all recipes there
    for name in options.only:
        model, parameters = OURS[name]
        systems[name] = (sys.executable, "longtail", model, json.dumps(parameters))
    rows = compare(systems, data, options.data_root)
    text = table(rows, "PECOS XR-Linear")
    print(text)
    content: dict[str, Any] = {"table": text, "rows": rows}
    if options.calibration:
        content["calibration"] = calibration(data, options.data_root)
    command = f"python -m benchmarks.trees.label_trees --dataset {options.dataset}"
    command += " --calibration" if options.calibration else ""
    save(f"label-trees-{options.dataset}", content, command, folder=options.out)


def calibration(recipe: Recipe, data_root: Path | None) -> dict[str, Any]:
    """Return the expected calibration error of the five best labels of each test point, per kind of model."""
    found: dict[str, Any] = {}
    with common_data(recipe, data_root) as (_, train, test):
        for name, model in {
            "Parabel": Parabel(**PARABEL),
            "Bonsai": Bonsai(**BONSAI),
            "Bonsai, PW-cb": Bonsai(**(BONSAI | {"weighting": "pw-cb"})),
        }.items():
            error, bins = calibration_error(model.fit(train.X, train.Y).predict(test.X, k=5), test.Y)
            print(f"\n{name}: expected calibration error {100 * error:.1f} percent points")
            print("score  share of predictions  share that is right")
            for mean, share, right in bins:
                print(f"{mean:5.2f}  {share:20.3f}  {right:19.3f}")
            found[name] = {"ece": error, "bins": bins}
    return found


def calibration_error(predictions: Predictions, Y: sparse.csr_matrix) -> tuple[float, list[tuple[float, ...]]]:
    """Return the mean over predictions of |mean score - share that is right| of their bin; ten bins of equal width.

    Labels that are missing from the test set count as wrong, which a perfectly calibrated model would suffer from too.
    """
    kept = predictions.labels >= 0
    points = np.broadcast_to(np.arange(len(predictions))[:, None], kept.shape)[kept]
    right = np.asarray(Y[points, predictions.labels[kept]]).ravel()
    scores = predictions.scores[kept].astype(np.float64)
    bins = np.minimum((scores * BINS).astype(int), BINS - 1)
    rows = [
        (float(scores[bins == b].mean()), float((bins == b).mean()), float(right[bins == b].mean()))
        for b in np.unique(bins)
    ]
    return sum(share * abs(mean - correct) for mean, share, correct in rows), rows


if __name__ == "__main__":
    main()
