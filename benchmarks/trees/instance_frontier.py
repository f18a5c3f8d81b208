"""What PfastreXML gains in PSP@1 for what it gives up in P@1, on the dev split of EURLEX57K.

    python -m benchmarks.trees.instance_frontier [--trees 50]

Grows the trees of FastXML and of PfastXML once, and ranks the proposals of the latter in many ways: leaf frequencies
times (1/p)^b for several b (b = 1 is PfastXML), alone or mixed with the paper's tail classifiers by several alpha and
gamma, or with linear ones (of several weightings) by several alpha.
Prints the best of each kind, writes docs/lab/benchmarks/instance-trees-frontier.json and
docs/images/instance_trees_frontier.png.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from scipy import sparse

from benchmarks.common import add_out, image, save
from benchmarks.common.data import add_data_root, features_of, recipe_named
from longtail import FastXML, PfastXML, PropensityModel
from longtail.core.predictions import Predictions
from longtail.data import Dataset
from longtail.trees.instance.descend import top_of_forest
from longtail.trees.instance.tail import Centres, Classifiers
from longtail.workflow.apply import conform
from longtail.workflow.score import score_predictions

mpl.use("Agg")
from matplotlib import pyplot as plt

COMMAND = "python -m benchmarks.trees.instance_frontier"
EXPONENTS = (0.0, 0.25, 0.5, 0.75, 1.0)
MIXTURES = ((0.95, 30.0), (0.9, 30.0), (0.8, 30.0), (0.6, 30.0), (0.8, 10.0), (0.8, 100.0))
WANTED = 1.3  # times the PSP@1 of FastXML, at no lower P@1
ALPHAS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
WEIGHTINGS = {"linear": None, "linear-pw": "pw", "linear-pw-cb": "pw-cb"}
KINDS = {"trees": "PfastXML's trees alone", "means": 'tail="means", the paper\'s', "linear": 'tail="linear"',
         "linear-pw": 'tail="linear", weighting="pw"', "linear-pw-cb": 'tail="linear", weighting="pw-cb"'}  # fmt: skip
COLORS = {"trees": "tab:blue", "means": "tab:orange", "linear": "tab:green", "linear-pw": "tab:purple",
          "linear-pw-cb": "tab:brown"}  # fmt: skip


def frontier(train: Dataset, dev: Dataset, trees: int) -> dict[str, Any]:
    inverse = PropensityModel().inverse(train.label_counts, train.n_points)
    model = PfastXML(n_trees=trees).fit(train.X, train.Y)
    X = conform(dev, model)

    def measured(predictions: Predictions) -> dict[str, float]:
        counts = {"training_counts": train.label_counts, "n_training_points": train.n_points}
        metrics = score_predictions(predictions, dev.Y, **counts).metrics
        return {name: round(metrics[name], 3) for name in ("P@1", "PSP@1")}

    found: dict[str, Any] = {"FastXML": measured(FastXML(n_trees=trees).fit(train.X, train.Y).predict(X, k=1))}
    leaves, means = model.forest_.leaves, Centres.of(train.X, train.Y)
    linear = {
        kind: Classifiers.of(Classifiers.learner(weighting).fit(train.X, train.Y))
        for kind, weighting in WEIGHTINGS.items()
    }
    found |= {kind: [] for kind in KINDS}
    for b in EXPONENTS:
        again = (leaves.data * inverse[leaves.indices] ** (b - 1)).astype(np.float32)
        weighed = sparse.csr_matrix((again, leaves.indices, leaves.indptr), shape=leaves.shape)
        forest = replace(model.forest_, leaves=weighed)
        found["trees"].append({"b": b} | measured(top_of_forest(X, forest, 1, n_jobs=-1)))
        for alpha, gamma in MIXTURES:
            ranked = top_of_forest(X, forest, 1, tail=means, alpha=alpha, gamma=gamma, n_jobs=-1)
            found["means"].append({"b": b, "alpha": alpha, "gamma": gamma} | measured(ranked))
        for kind, tail in linear.items():
            for alpha in ALPHAS:
                ranked = top_of_forest(X, forest, 1, tail=tail, alpha=alpha, n_jobs=-1)
                found[kind].append({"b": b, "alpha": alpha} | measured(ranked))
    return found


def draw(found: dict[str, Any], path: Path) -> None:
    figure, axis = plt.subplots(figsize=(7.5, 5.5), layout="constrained")
    start = found["FastXML"]
    low, high = WANTED * start["PSP@1"], max(row["PSP@1"] for kind in KINDS for row in found[kind]) + 1
    top = max(row["P@1"] for kind in KINDS for row in found[kind]) + 0.5
    axis.fill_between([low, high], start["P@1"], top, color="0.9", label="30 % more PSP@1, no lower P@1")
    for kind, title in KINDS.items():
        rows = found[kind]
        axis.scatter([r["PSP@1"] for r in rows], [r["P@1"] for r in rows], s=14, color=COLORS[kind], label=title)
        edge = [r for r in rows if not any(o["P@1"] > r["P@1"] and o["PSP@1"] > r["PSP@1"] for o in rows)]
        edge.sort(key=lambda r: r["PSP@1"])
        axis.plot([r["PSP@1"] for r in edge], [r["P@1"] for r in edge], color=COLORS[kind], linewidth=1)
    axis.scatter([start["PSP@1"]], [start["P@1"]], marker="*", s=140, color="tab:red", label="FastXML", zorder=3)
    axis.set(xlabel="PSP@1, %", ylabel="P@1, %", xlim=(start["PSP@1"] - 1, high), ylim=(start["P@1"] - 8, top))
    axis.set_title("EURLEX57K, dev split: proposals ranked by b, alpha and gamma")
    axis.legend(loc="lower left")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_out(parser)
    add_data_root(parser)
    parser.add_argument("--trees", type=int, default=50)
    arguments = parser.parse_args()
    recipe = recipe_named("eurlex57k/pfastrexml")
    train, dev = features_of(recipe, arguments.data_root, test="eurlex57k/dev.jsonl.xz")
    found = frontier(train, dev, arguments.trees)
    start = found["FastXML"]
    print("FastXML", start)
    for kind in KINDS:
        enough = [row for row in found[kind] if row["PSP@1"] >= WANTED * start["PSP@1"]]
        print(f"{kind}: highest P@1 with 30 % more PSP@1:", max(enough, key=lambda r: r["P@1"], default=None))
    about = {"data": "EURLEX57K, training and dev splits", "n_trees": arguments.trees}
    save("instance-trees-frontier", about | found, COMMAND, folder=arguments.out)
    draw(found, image("instance_trees_frontier.png", arguments.out))


if __name__ == "__main__":
    main()
