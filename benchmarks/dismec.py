"""DiSMEC beside PECOS, omikuji and SciPy, on the same files in one run.

    python benchmarks/dismec.py [--recipe recipes/eurlex57k/dismec.toml] [--pecos-python P] [--omikuji-python P]

Each weighting has the parameters of its recipe, dismec.toml, dismec-pw.toml or dismec-pw-cb.toml in the same folder.
Peers run only when a Python that has them is named; nothing is installed. In environments of their own:
    pip install 'numpy<2' 'scipy<1.14' scikit-learn && pip install --no-deps libpecos
    pip install omikuji numpy scipy
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

import numpy as np
from peers import ROOT, common_data, compare, machine, table

from longtail import DiSMEC
from longtail.bench.recipe import read_recipe

WEIGHTINGS = {"none": "dismec", "pw": "dismec-pw", "pw-cb": "dismec-pw-cb"}  # recipes beside the one that is named


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--recipe", default="recipes/eurlex57k/dismec.toml")
    parser.add_argument("--data-root", type=Path, default=ROOT.parent / "shared" / "data")
    parser.add_argument("--pecos-python")
    parser.add_argument("--omikuji-python")
    parser.add_argument(
        "--weightings", nargs="*", default=list(WEIGHTINGS), help="of none, pw, pw-cb; empty: peers only"
    )
    parser.add_argument("--rounds", type=int, default=1, help="how often the systems take turns; figures are medians")
    parser.add_argument("--out", type=Path, help="write the figures as JSON, e.g. docs/results/benchmarks/NAME.json")
    options = parser.parse_args()
    systems: dict[str, tuple[str, ...]] = {}
    if options.pecos_python:
        systems["PECOS XR-Linear"] = (options.pecos_python, "pecos")
    if options.omikuji_python:
        systems["omikuji, 3 trees"] = (options.omikuji_python, "omikuji")
    for name in options.weightings:
        recipe = read_recipe((ROOT / options.recipe).with_name(f"{WEIGHTINGS[name]}.toml"))
        parameters = json.dumps({"weighting": recipe.weighting} | recipe.parameters)
        systems[f"DiSMEC {name}"] = (sys.executable, "longtail", "dismec", parameters)
    rows = compare(systems, options.recipe, options.data_root, rounds=options.rounds)
    text = table(rows, "PECOS XR-Linear")
    print(text)
    scipy_s, ours_s = scipy_against_ours(options.recipe, options.data_root)
    print(f"\nprediction: SciPy {scipy_s:.2f} s, longtail {ours_s:.2f} s, {scipy_s / ours_s:.1f} times as fast")
    if options.out:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        content = {
            "command": f"python benchmarks/dismec.py --recipe {options.recipe} --rounds {options.rounds}",
            "machine": machine(),
        }
        content |= {"table": text, "scipy_predict_s": scipy_s, "longtail_predict_s": ours_s, "rows": rows}
        options.out.write_text(json.dumps(content, indent=1) + "\n")


def scipy_against_ours(recipe: str, data_root: Path) -> tuple[float, float]:
    """Seconds for the top 5 of all test points: X @ W in chunks with argpartition, and our own."""
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
