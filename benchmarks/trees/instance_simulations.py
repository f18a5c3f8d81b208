"""The simulations of Jain et al. (KDD 2016, figure 3) on made-up data whose complete labels are known.

    python -m benchmarks.trees.instance_simulations [--trees 20]

Labels are dropped along propensity curves of several A (B = 1.5); everything else about the data stays the same.
(a) The ranking of one FastXML, trained on complete labels, is measured on complete test labels, and estimated from the
    observed ones: by the plain metric, and by the propensity-scored one.
(b) FastXML and PfastXML are trained on the observed labels, and measured on the complete ones.
(c) The same, labels dropped with A = 0.55, but PfastXML believes in another A.
(d) Coverage of FastXML and PfastreXML on EURLEX57K, from docs/lab/runs/eurlex57k.
Prints the numbers, writes docs/lab/benchmarks/instance-trees.json and docs/images/instance_trees.png.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np

from benchmarks.common import LAB, add_out, image, save
from longtail import FastXML, PfastXML, PropensityModel, make_longtail
from longtail.bench.results import read_results
from longtail.data.synthetic import SyntheticLongtail
from longtail.metrics import Matches, score

mpl.use("Agg")
from matplotlib import pyplot as plt

COMMAND = "python -m benchmarks.trees.instance_simulations"
CURVES = (0.2, 0.4, 0.55, 0.7, 0.9)
REFERENCE, B = 0.55, 1.5
SEEDS = (0, 1, 2)


def data(A: float | None, seed: int) -> SyntheticLongtail:
    """Return the same points and complete labels for every A; None drops nothing."""
    return make_longtail(propensity=None if A is None else (A, B), n_points=6000, n_test_points=3000, random_state=seed)


def on_complete_labels(model: Any, made: SyntheticLongtail) -> float:
    model.fit(made.train.X, made.train.Y)
    return 100 * score(Matches.of(model.predict(made.test.X, k=3), made.test_complete_Y), "nDCG@3")


def estimates(seed: int, trees: int) -> dict[str, list[float]]:
    """(a): the truth and its two estimates along the curves."""
    complete = data(None, seed)
    model = FastXML(n_trees=trees).fit(complete.train.X, complete.train.Y)
    predictions = model.predict(complete.test.X, k=3)
    truth = 100 * score(Matches.of(predictions, complete.test_complete_Y), "P@3")
    found: dict[str, list[float]] = {"complete": [], "plain": [], "propensity-scored": []}
    for A in CURVES:
        made = data(A, seed)
        assert (made.test_complete_Y != complete.test_complete_Y).nnz == 0
        matches = Matches.of(predictions, made.test.Y, inverse_propensities=1 / made.propensities)
        found["complete"].append(truth)
        found["plain"].append(100 * score(matches, "P@3"))
        found["propensity-scored"].append(100 * score(matches, "unbiased-P@3"))
    return found


def trained_on_observed(seed: int, trees: int) -> dict[str, list[float]]:
    """(b): measured on complete labels, along the curves."""
    return {
        "FastXML": [on_complete_labels(FastXML(n_trees=trees), data(A, seed)) for A in CURVES],
        "PfastXML": [on_complete_labels(PfastXML(n_trees=trees, propensity=(A, B)), data(A, seed)) for A in CURVES],
    }


def trained_with_wrong_propensities(seed: int, trees: int) -> dict[str, list[float]]:
    """(c): measured on complete labels, by what PfastXML believes."""
    made = data(REFERENCE, seed)
    plain = on_complete_labels(FastXML(n_trees=trees), made)
    believed = [on_complete_labels(PfastXML(n_trees=trees, propensity=PropensityModel(A, B)), made) for A in CURVES]
    return {"FastXML": [plain] * len(CURVES), "PfastXML": believed}


def over_seeds(experiment: Any, trees: int) -> dict[str, dict[str, list[float]]]:
    runs = [experiment(seed, trees) for seed in SEEDS]
    return {
        name: {"mean": np.mean([run[name] for run in runs], axis=0).round(3).tolist(),
               "least": np.min([run[name] for run in runs], axis=0).round(3).tolist(),
               "most": np.max([run[name] for run in runs], axis=0).round(3).tolist()}
        for name in runs[0]
    }  # fmt: skip


def coverage() -> dict[str, list[float]]:
    """(d): coverage@1..5 of the recipes on EURLEX57K."""
    results = read_results(LAB.parent / "runs")["eurlex57k"]
    names = ("fastxml", "pfastxml", "pfastrexml", "pfastrexml-linear")
    return {name: [results[name]["metrics"][f"coverage@{k}"] for k in range(1, 6)] for name in names}


COLORS = {"complete": "black", "plain": "tab:red", "propensity-scored": "tab:blue", "FastXML": "tab:red",
          "PfastXML": "tab:blue", "fastxml": "tab:red", "pfastxml": "tab:blue", "pfastrexml": "tab:orange",
          "pfastrexml-linear": "tab:green"}  # fmt: skip


def draw(result: dict[str, Any], covered: dict[str, list[float]], path: Path) -> None:
    figure, axes = plt.subplots(2, 2, figsize=(11, 8), layout="constrained")
    panels = {
        "a": ("(a) P@3 of one FastXML, by the labels it is measured on", "A with which labels were dropped", "P@3, %"),
        "b": ("(b) Trained on observed, measured on complete labels", "A with which labels were dropped", "nDCG@3, %"),
        "c": ("(c) Labels dropped with A = 0.55, PfastXML believes another A", "A that PfastXML believes", "nDCG@3, %"),
    }  # fmt: skip
    for axis, (key, (title, xlabel, ylabel)) in zip(axes.flat, panels.items(), strict=False):
        for name, values in result[key].items():
            truth = {"linestyle": "--", "zorder": 3} if name == "complete" else {}  # else hidden below its estimate
            axis.plot(CURVES, values["mean"], marker="o", color=COLORS[name], label=name, **truth)
            axis.fill_between(CURVES, values["least"], values["most"], color=COLORS[name], alpha=0.15)
        axis.set(title=title, xlabel=xlabel, ylabel=ylabel)
        axis.legend()
    last = axes.flat[3]
    for name, values in covered.items():
        last.plot(range(1, 6), values, marker="o", color=COLORS[name], label=name)
    last.set(title="(d) EURLEX57K: test labels that are found at least once", xlabel="k", ylabel="coverage@k, %")
    last.set_xticks(range(1, 6))
    if covered:
        last.legend()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_out(parser)
    parser.add_argument("--trees", type=int, default=20)
    arguments = parser.parse_args()
    experiments = {"a": estimates, "b": trained_on_observed, "c": trained_with_wrong_propensities}
    result: dict[str, Any] = {key: over_seeds(experiment, arguments.trees) for key, experiment in experiments.items()}
    for key, lines in result.items():
        for name, values in lines.items():
            print(
                f"({key}) {name:18}", *(f"A={A}: {value:6.2f}" for A, value in zip(CURVES, values["mean"], strict=True))
            )
    about = {"data": "make_longtail, 6,000 training and 3,000 test points, 1,000 labels", "trees": arguments.trees,
             "seeds": len(SEEDS), "A": list(CURVES)}  # fmt: skip
    save("instance-trees", about | result, COMMAND, folder=arguments.out)
    draw(result, coverage(), image("instance_trees.png", arguments.out))


if __name__ == "__main__":
    main()
