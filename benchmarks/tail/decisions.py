"""Probabilities, and labels chosen together: calibration error before and after, macro-F1@5 and coverage@5.

    python -m benchmarks.tail.decisions [eurlex57k/dismec eurlex57k/bonsai ...]

Each model is that of its recipe; a RankNet without a recipe of its own re-ranks the model of the recipe that is named
after "ranknet-", with a tenth of the points held out. Models are calibrated by a second training without a tenth of the
training points, unless they have probabilities already (re-rankers). Nothing is fitted to the test split, but choices
were made after a look at it on EURLEX57K with DiSMEC: where groups of label frequency begin, differences instead of
derivatives in the gains per label, and the least number of expected labels; the other datasets had no part in them. How
smooth the calibration is was chosen on held-out training points of EURLEX57K and Debian with Bonsai, and how much the
first five labels count on held-out training points of all three datasets with Bonsai and DiSMEC. "Before" is the
logistic function of a score (of a re-ranker: the score as a logarithm); isotonic regression learns from the same half
of the unseen points as the calibration. Writes docs/lab/benchmarks/decisions.json, which keeps what it holds for other
models.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import sparse
from scipy.special import expit
from sklearn.isotonic import IsotonicRegression

from benchmarks.common import ROOT, add_out, load, markdown_table, save
from benchmarks.common.data import add_data_root, features_of, recipe_named
from longtail import RankNet
from longtail.bench.recipe import Recipe
from longtail.compose import reranker
from longtail.core import calibrated
from longtail.core.base import clone
from longtail.core.batch_optimal import OBJECTIVES, choose_together, learn_gains
from longtail.core.predictions import Predictions
from longtail.core.unseen import Splits, predict_rows
from longtail.metrics import BAND_NAMES, evaluate, evaluate_sets, reliability

DEFAULT = [
    "eurlex57k/dismec", "eurlex57k/bonsai", "eurlex57k/ranknet-dismec",
    "debian-depends/dismec", "debian-depends/bonsai", "debian-depends/ranknet-bonsai",
    "yso-finna-en/dismec", "yso-finna-en/bonsai", "yso-finna-en/ranknet-bonsai",
]  # fmt: skip
BESIDE_XCOLUMNS = "eurlex57k/dismec"  # minutes, where this library takes a tenth of a second
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


def estimator_named(title: str) -> tuple[Any, Recipe]:
    """Return the unfitted model of a title, and the recipe whose features it reads."""
    dataset, name = title.split("/")
    if name.startswith("ranknet-") and not (ROOT / "recipes" / dataset / f"{name}.toml").exists():
        recipe = recipe_named(f"{dataset}/{name.removeprefix('ranknet-')}")
        return RankNet(base=recipe.estimator(), held_out=0.1), recipe
    recipe = recipe_named(title)
    return recipe.estimator(), recipe


@contextmanager
def calibrations_timed() -> Iterator[list[float]]:
    """Note the seconds of CPU that re-rankers spend on their calibration inside `fit`."""
    plain, spent = reranker.calibration_in_training, []

    def timed(*arguments: Any) -> Any:
        begin = time.process_time()
        found = plain(*arguments)
        spent.append(time.process_time() - begin)
        return found

    reranker.calibration_in_training = timed
    try:
        yield spent
    finally:
        reranker.calibration_in_training = plain


def measured(title: str, arguments: argparse.Namespace) -> dict[str, Any]:
    estimator, recipe = estimator_named(title)
    train, test = features_of(recipe, arguments.data_root)
    with calibrations_timed() as spent:
        begin = time.process_time()
        model = clone(estimator).fit(train.X, train.Y)
        seconds = {"training": round(time.process_time() - begin - sum(spent), 1)}
    if spent:  # on points that the training left out anyway
        seconds["calibration"] = round(sum(spent), 1)
    raw = predict_rows(model, test.X, np.arange(test.n_points), min(CANDIDATES, model.n_labels_))
    ready = model.has_probabilities()
    found: dict[str, Any] = {"seconds of CPU": seconds}
    begin = time.process_time()
    learning, out = next(Splits(held_out=0.1).split(train.n_points))
    copy = clone(estimator).fit(train.X[learning], train.Y[learning]) if not ready else model
    unseen = None if ready else calibrated.answers_of(copy, train.X[out], train.Y[out])
    if unseen is not None:
        seconds["second training"] = round(time.process_time() - begin, 1)
        begin = time.process_time()
        model.probabilities_ = calibrated.fit_calibration(copy, unseen).moved(copy, model)
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
    if title == BESIDE_XCOLUMNS:
        found["xCOLUMNs"] = beside_xcolumns(likely, train.n_labels)
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


def beside_xcolumns(likely: Predictions, n_labels: int) -> dict[str, Any]:
    """Return the expected macro-F1@5 of labels that this library and xCOLUMNs choose, by the same probabilities."""
    from xcolumns.block_coordinate import predict_optimizing_macro_f1_score_using_bc

    matrix = likely.to_csr(n_labels).astype(np.float64)
    begin = time.process_time()
    theirs = predict_optimizing_macro_f1_score_using_bc(matrix, K, init_y_pred="top", seed=0)
    seconds = time.process_time() - begin
    hits = np.asarray(sparse.csr_matrix(theirs).multiply(matrix).sum(axis=0)).ravel()
    total = np.asarray(theirs.sum(axis=0)).ravel() + np.asarray(matrix.sum(axis=0)).ravel()
    value = float((2 * hits / np.maximum(total, 1e-300)).mean())
    chosen = choose_together(likely, K, n_labels=n_labels)
    return {
        "theirs": round(100 * value, 3),
        "ours": round(100 * chosen.expected[-1], 3),
        "their seconds of CPU": round(seconds, 2),
    }


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
    """Return ECE@5 before, after and by isotonic regression, of all labels and by frequency band."""
    rows = [
        [title, how, *(f"{error[band]:.2f}" for band in ("all", *BAND_NAMES))]
        for title, found in models.items()
        for how, error in found["ECE@5"].items()
    ]
    return markdown_table(["model", "probabilities", "ECE@5", *BAND_NAMES], rows, left=(0, 1))


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
        models = dict(sorted((models | {title: measured(title, arguments)}).items()))
        content = {"models": models, "table": errors_table(models), "together": together_table(models)}
        save("decisions", content, "python -m benchmarks.tail.decisions", folder=arguments.out)


if __name__ == "__main__":
    main()
