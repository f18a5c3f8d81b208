"""What the parts of PfastreXML cost and know: its trees, its tail classifiers, and predictions on one core.

    python -m benchmarks.trees.instance_speed [--recipe eurlex57k/pfastrexml-linear]

Trains the trees and the linear tail classifiers of the recipe and the means beside them on all cores, then measures
predictions with either kind of tail on one.
Also measured: how well each tells right from wrong among the five labels that the trees rank first (AUC, test split).
Writes docs/lab/benchmarks/instance-trees-speed.json.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.metrics import roc_auc_score

from benchmarks.common import add_out, save
from benchmarks.common.data import add_data_root, features_of, recipe_named
from longtail import PfastreXML, PfastXML
from longtail.core.predictions import Predictions
from longtail.trees.instance.tail import Centres, Classifiers
from longtail.workflow.apply import conform

COMMAND = "python -m benchmarks.trees.instance_speed"


def seconds(work) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def told_apart(proposals: Predictions, Y: sparse.csr_matrix, X: sparse.csr_matrix, parts: dict[str, Any]) -> Any:
    """Return the chance that a right proposal is scored above a wrong one, by trees, means and linear classifiers."""
    rows, ranks = np.nonzero(proposals.labels >= 0)
    labels = proposals.labels[rows, ranks]
    right = np.asarray(Y[rows, labels]).ravel() > 0

    def products(matrix: sparse.csr_matrix) -> Any:
        return np.asarray(X[rows].multiply(matrix[labels]).sum(axis=1)).ravel()

    means, linear = parts["means"], parts["linear"]
    scores = {
        "trees": proposals.scores[rows, ranks],
        "means": 2 * products(means.matrix) - means.squared_norms[labels],  # rows of X have the same length
        "linear": products(linear.weights) + linear.intercepts[labels],
    }
    return {f"{name}_auc": round(float(roc_auc_score(right, score)), 3) for name, score in scores.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--recipe", default="eurlex57k/pfastrexml-linear")
    add_data_root(parser)
    add_out(parser)
    arguments = parser.parse_args()
    recipe = recipe_named(arguments.recipe)
    train, test = features_of(recipe, arguments.data_root)
    few = np.arange(64)
    model = recipe.estimator().fit(train.X[few], train.Y[few])  # compiles the kernels; gets its parts below
    result = {"dataset": recipe.dataset, "trees": model.n_trees, "k": 5}
    trees = PfastXML(n_trees=model.n_trees, propensity=model.propensity)
    classifiers = Classifiers.learner(model.weighting)
    result["trees_s"] = seconds(lambda: trees.fit(train.X, train.Y))
    result["linear_s"] = seconds(lambda: classifiers.fit(train.X, train.Y))
    result["means_s"] = seconds(lambda: Centres.of(train.X, train.Y))
    model.forest_ = trees.forest_
    model.set_params(n_jobs=1)
    X = conform(test, model)
    tails = {"means": Centres.of(train.X, train.Y), "linear": Classifiers.of(classifiers)}
    result |= told_apart(trees.predict(X, k=5), test.Y, X, tails)
    alphas = {"means": PfastreXML().alpha, "linear": model.alpha}  # the paper's, the recipe's
    for kind, tail in tails.items():
        model.tail_ = tail
        model.set_params(alpha=alphas[kind])
        model.predict(X[:64], k=5)
        result[f"{kind}_batch_ms"] = 1000 * seconds(lambda: model.predict(X, k=5)) / X.shape[0]
        each = [1000 * seconds(lambda i=i: model.predict(X[i : i + 1], k=5)) for i in range(1000)]
        result[f"{kind}_single_ms"], result[f"{kind}_single_ms_p95"] = np.percentile(each, (50, 95)).tolist()
    for name, value in result.items():
        print(f"{name:20} {value:.4g}" if isinstance(value, float) else f"{name:20} {value}")
    save("instance-trees-speed", result, COMMAND, folder=arguments.out)


if __name__ == "__main__":
    main()
