"""How far to trust the scores of label trees: the expected calibration error of the five best labels per test point.

    python -m benchmarks.trees.calibration [--dataset eurlex57k]

Library defaults. Writes docs/lab/benchmarks/label-trees-calibration.json.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
from scipy import sparse

from benchmarks.common import add_out, markdown_table, save
from benchmarks.common.data import add_data_root, features_of, recipe_named
from longtail import Bonsai, Parabel
from longtail.core.predictions import Predictions

MODELS: dict[str, Any] = {
    "Parabel": Parabel,
    "Bonsai": Bonsai,
    "Bonsai, PW-cb": lambda: Bonsai(weighting="pw-cb"),
}
BINS = 10


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dataset", default="eurlex57k")
    add_data_root(parser)
    add_out(parser)
    options = parser.parse_args()
    train, test = features_of(recipe_named(f"{options.dataset}/dismec"), options.data_root)
    found: dict[str, Any] = {}
    for name, new in MODELS.items():
        error, bins = calibration_error(new().fit(train.X, train.Y).predict(test.X, k=5), test.Y)
        print(f"\n{name}: expected calibration error {100 * error:.1f} percent points")
        print("score  share of predictions  share that is right")
        for mean, share, right in bins:
            print(f"{mean:5.2f}  {share:20.3f}  {right:19.3f}")
        found[name] = {"ece": error, "bins": bins}
    command = f"python -m benchmarks.trees.calibration --dataset {options.dataset}"
    save("label-trees-calibration", {"table": table(found), "rows": found}, command, folder=options.out)


def table(found: dict[str, Any]) -> str:
    rows = [[name, f"{100 * values['ece']:.1f}"] for name, values in found.items()]
    return markdown_table(["model", "expected calibration error, percent points"], rows)


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
