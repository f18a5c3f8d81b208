"""Probabilities, and labels chosen together: calibration error before and after, macro-F1@5 and coverage@5.

    python -m benchmarks.tail.decisions [eurlex57k/dismec eurlex57k/bonsai ...]

Each model is that of its recipe. It is calibrated by a second training without a tenth of the training points, unless
it has probabilities already (re-rankers). Nothing is fitted to the test split, but choices were made after a look at it
on EURLEX57K with DiSMEC: where groups of label frequency begin, differences instead of derivatives in the gains per
label, and the least number of expected labels; Debian dependencies had no part in them. "Before" is the logistic
function of a score (of a re-ranker: the score as a logarithm); isotonic regression learns from the same half of the
unseen points as the calibration. Writes docs/lab/benchmarks/decisions.json, which keeps what it holds for other models.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.special import expit
from sklearn.isotonic import IsotonicRegression

from benchmarks.common import add_out, load, markdown_table, save
from benchmarks.common.data import add_data_root, features_of, recipe_named
from longtail.core import calibrated
from longtail.core.batch_optimal import OBJECTIVES, choose_together, learn_gains
from longtail.core.predictions import Predictions
from longtail.core.unseen import Splits, predict_rows
from longtail.metrics import evaluate, evaluate_sets, reliability

DEFAULT = [
    "eurlex57k/dismec", "eurlex57k/bonsai", "eurlex57k/ranknet-dismec", "debian-depends/dismec",
    "debian-depends/bonsai", "yso-finna-en/dismec",
]  # fmt: skip
CANDIDATES = 100
K = 5
SHOWN = ("P@1", "P@5", "macro-F1@5", "macro-R@5", "coverage@5")


def errors(found: Predictions, Y: Any, counts: Any) -> dict[str, float]:
    """Return ECE@5 in points, of all labels and by frequency band."""
    return {name: round(100 * one.error, 2) for name, one in reliability(found, Y, k=K, training_counts=counts).items()}


def isotonic(unseen: calibrated.UnseenAnswers, raw: Predictions) -> Predictions:
    learning = unseen.halves()[0]
    kept = learning.found.labels >= 0
    curve = IsotonicRegression(out_of_bounds="clip").fit(learning.found.scores[kept], learning.hits[kept])
    scores = np.where(raw.labels >= 0, raw.scores, 0)
    return replace(raw, scores=np.where(raw.labels >= 0, curve.predict(scores.ravel()).reshape(scores.shape), -np.inf))


def measured(title: str, arguments: argparse.Namespace) -> dict[str, Any]:
    train, test = features_of(recipe_named(title), arguments.data_root)
    begin = time.process_time()
    model = recipe_named(title).estimator().fit(train.X, train.Y)
    seconds = {"training": round(time.process_time() - begin, 1)}
    raw = predict_rows(model, test.X, np.arange(test.n_points), min(CANDIDATES, model.n_labels_))
    ready = model.has_probabilities()
    found: dict[str, Any] = {"seconds of CPU": seconds}
    begin = time.process_time()
    learning, out = next(Splits(held_out=0.1).split(train.n_points))
    copy = recipe_named(title).estimator().fit(train.X[learning], train.Y[learning]) if not ready else model
    unseen = None if ready else calibrated.answers_of(copy, train.X[out], train.Y[out])
    if unseen is not None:
        model.probabilities_ = calibrated.fit_calibration(copy, unseen)
        seconds["calibration"] = round(time.process_time() - begin, 1)
    likely = calibrated.with_probabilities(model, raw)
    naive = replace(raw, scores=np.where(raw.labels >= 0, expit(raw.scores), -np.inf))
    if ready:
        naive = replace(raw, scores=calibrated.as_probabilities(raw, raw.scores))
    found["ECE@5"] = {
        "before": errors(naive, test.Y, train.label_counts),
        "after": errors(likely, test.Y, train.label_counts),
    }
    if unseen is not None:
        found["ECE@5"]["isotonic regression"] = errors(isotonic(unseen, raw), test.Y, train.label_counts)
        found["sets"] = sets(model, test)
        candidates = calibrated.with_probabilities(
            copy, calibrated.answers_of(copy, train.X[out], train.Y[out], CANDIDATES).found
        )
    found["ranked"] = {"top k": shown(raw.top(K), test.Y)}
    shares = train.label_counts / train.n_points
    for objective in OBJECTIVES:
        choose_together(likely[:50], K, objective)  # compiles
        begin, wall = time.process_time(), time.perf_counter()
        chosen = choose_together(likely, K, objective, shares=shares)
        found["ranked"][f"together, {objective}"] = shown(chosen.predictions, test.Y)
        seconds[f"together, {objective}"] = round(min(time.process_time() - begin, time.perf_counter() - wall), 2)
        if unseen is not None and objective != "coverage":
            gains = learn_gains(candidates, K, objective, shares)
            found["ranked"][f"point by point, {objective}"] = shown(gains.best_of(likely, K), test.Y)
    return found


def shown(found: Predictions, Y: Any) -> dict[str, float]:
    metrics = evaluate(found, Y)
    return {name: round(metrics[name], 2) for name in SHOWN}


def sets(model: Any, test: Any) -> dict[str, Any]:
    """Return metrics of sets with a budget and with a recall to reach."""
    found = {}
    for name, arguments in {
        "budget 5": {"budget": 5.0}, "recall 0.8": {"recall_at_least": 0.8}, "threshold 0.5": {"threshold": 0.5}
    }.items():  # fmt: skip
        try:
            metrics = evaluate_sets(model.predict_sets(test.X, **arguments), test.Y)
        except Exception as error:
            found[name] = str(error)
        else:
            found[name] = {key: round(value, 2) for key, value in metrics.items()}
    return found


def errors_table(models: dict[str, Any]) -> str:
    """Return ECE@5 before, after and by isotonic regression, and after by frequency band."""
    header = ["model", "before", "after", "isotonic regression", "after: head", "torso", "tail", "isotonic: tail"]
    rows = []
    for title, found in models.items():
        error, other = found["ECE@5"], found["ECE@5"].get("isotonic regression", {})
        cells = [error["before"]["all"], error["after"]["all"], other.get("all")]
        cells += [*(error["after"][band] for band in ("head", "torso", "tail")), other.get("tail")]
        rows.append([title, *("–" if cell is None else f"{cell:.2f}" for cell in cells)])
    return markdown_table(header, rows)


def together_table(models: dict[str, Any]) -> str:
    """Return the metrics of the k best labels and of labels that are chosen for an objective."""
    rows = [
        [title, how, *(f"{metrics[name]:.2f}" for name in SHOWN)]
        for title, found in models.items()
        for how, metrics in found["ranked"].items()
    ]
    return markdown_table(["model", "labels", *SHOWN], rows, left=(0, 1))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipes", nargs="*", default=DEFAULT, metavar="RECIPE")
    add_data_root(parser)
    add_out(parser)
    arguments = parser.parse_args()
    for title in arguments.recipes:
        models = load("decisions", arguments.out).get("models", {})
        models[title] = measured(title, arguments)
        content = {"models": models, "table": errors_table(models), "together": together_table(models)}
        save("decisions", content, "python -m benchmarks.tail.decisions", folder=arguments.out)


if __name__ == "__main__":
    main()
