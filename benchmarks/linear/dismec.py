"""DiSMEC beside PECOS, omikuji and SciPy, on the same files in one run.

    python -m benchmarks.linear.dismec [--dataset eurlex57k] [--pecos-python P] [--omikuji-python P] [--rounds 3]

Each weighting has the parameters of its recipe: dismec, dismec-pw or dismec-pw-cb. Peers: see benchmarks/peers.
Writes docs/lab/benchmarks/dismec-DATASET.json.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

import numpy as np

from benchmarks.common import add_out, save
from benchmarks.common.data import add_data_root, recipe_named
from benchmarks.peers import add_peers, common_data, compare, peers_of, table
from longtail import DiSMEC
from longtail.bench.recipe import Recipe

WEIGHTINGS = {"none": "dismec", "pw": "dismec-pw", "pw-cb": "dismec-pw-cb"}  # recipes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dataset", default="eurlex57k")
    add_data_root(parser)
    add_peers(parser)
    parser.add_argument(
        "--weightings", nargs="*", default=list(WEIGHTINGS), help="of none, pw, pw-cb; empty: peers only"
    )
    parser.add_argument("--rounds", type=int, default=1, help="how often the systems take turns; figures are medians")
    add_out(parser)
    options = parser.parse_args()
    data, systems = recipe_named(f"{options.dataset}/dismec"), peers_of(options)
    for name in options.weightings:
        recipe = recipe_named(f"{options.dataset}/{WEIGHTINGS[name]}")
        parameters = json.dumps({"weighting": recipe.weighting} | recipe.parameters)
        systems[f"DiSMEC {name}"] = (sys.executable, "longtail", "dismec", parameters)
    rows = compare(systems, data, options.data_root, rounds=options.rounds)
    text = table(rows, "PECOS XR-Linear")
    print(text)
    scipy_s, ours_s = scipy_against_ours(data, options.data_root)
    print(f"\nprediction: SciPy {scipy_s:.2f} s, longtail {ours_s:.2f} s, {scipy_s / ours_s:.1f} times as fast")
    command = f"python -m benchmarks.linear.dismec --dataset {options.dataset} --rounds {options.rounds}"
    content = {"table": text, "scipy_predict_s": scipy_s, "longtail_predict_s": ours_s, "rows": rows}
    save(f"dismec-{options.dataset}", content, command, folder=options.out)


def scipy_against_ours(recipe: Recipe, data_root: Path | None) -> tuple[float, float]:
    """Return seconds for the top 5 of all test points: X @ W in chunks with argpartition, and our own."""
    with common_data(recipe, data_root) as (_, train, test):
        model = DiSMEC(tol=0.1).fit(train.X, train.Y)
        model.predict(test.X[:600])
        started = time.perf_counter()
        for first in range(0, test.X.shape[0], 500):
            scores = (test.X[first : first + 500] @ model.weights_).toarray() + model.intercept_
            np.argpartition(-scores, 5, axis=1)[:, :5]
        middle = time.perf_counter()
        model.predict(test.X, k=5)
        return middle - started, time.perf_counter() - middle


if __name__ == "__main__":
    main()
