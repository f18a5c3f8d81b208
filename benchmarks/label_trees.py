"""Parabel and Bonsai beside PECOS and omikuji, on the same files in one run; and how far to trust their scores.

    python benchmarks/label_trees.py [--recipe recipes/eurlex57k/parabel.toml] [--pecos-python P] [--omikuji-python P]

Peers run only when a Python that has them is named; nothing is installed. In environments of their own:
    pip install 'numpy<2' 'scipy<1.14' scikit-learn && pip install --no-deps libpecos
    pip install omikuji numpy scipy
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from peers import ROOT, common_data, compare, machine, table
from scipy import sparse

from longtail import Bonsai, Parabel
from longtail.core.predictions import Predictions

# What the recipes of EURLEX57K use (chosen on its dev part), with one tree and with three.
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
    parser.add_argument("--recipe", default="recipes/eurlex57k/parabel.toml")
    parser.add_argument("--data-root", type=Path, default=ROOT.parent / "shared" / "data")
    parser.add_argument("--pecos-python")
    parser.add_argument("--omikuji-python")
    parser.add_argument("--only", nargs="*", default=list(OURS), choices=list(OURS))
    parser.add_argument("--calibration", action="store_true", help="also measure the calibration of the scores")
    parser.add_argument("--out", type=Path, help="write the figures as JSON, e.g. docs/results/benchmarks/NAME.json")
    options = parser.parse_args()
    systems: dict[str, tuple[str, ...]] = {}
    if options.pecos_python:
        systems["PECOS XR-Linear"] = (options.pecos_python, "pecos")
    if options.omikuji_python:
        systems["omikuji, 3 trees"] = (options.omikuji_python, "omikuji")
    for name in options.only:
        model, parameters = OURS[name]
        systems[name] = (sys.executable, "longtail", model, json.dumps(parameters))
    rows = compare(systems, options.recipe, options.data_root)
    text = table(rows, "PECOS XR-Linear")
    print(text)
    content: dict[str, Any] = {"command": " ".join(["python benchmarks/label_trees.py", "--recipe", options.recipe])}
    content |= {"machine": machine(), "table": text, "rows": rows}
    if options.calibration:
        content["calibration"] = calibration(options.recipe, options.data_root)
    if options.out:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(content, indent=1) + "\n")


def calibration(recipe: str, data_root: Path) -> dict[str, Any]:
    """Expected calibration error of the five best labels of each test point, for each kind of model."""
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
    """The mean over predictions of |mean score - share that is right| of their bin; ten bins of equal width.

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
