"""RankNet over a base, over the base with Taug, and over both: PSP@1 at equal P@1 on all points of the training split.

    python -m benchmarks.tail.together [dismec bonsai]

The test split of EURLEX57K has 6000 points, too few for what is to be told apart here. So bases predict each third of
the 45,000 training points after learning from the others (as they do inside RankNet), RankNet learns from two thirds
of these predictions and is measured on the last third, three times in turn. Settings are those of the recipes. Writes
docs/lab/benchmarks/tail-modules-together.json, which keeps what it holds for other bases.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.common import add_out, load, markdown_table
from benchmarks.tail.modules import data, estimator, write
from longtail import RankNet
from longtail.compose.reranker import best_of, log_quotient
from longtail.core.predictions import Predictions
from longtail.core.run import Run
from longtail.core.unseen import Unseen, predict_unseen
from longtail.core.wrapper import new_part
from longtail.data import Dataset
from longtail.metrics import Matches

RECIPE_OF = {"alone": "ranknet-{}", "with Taug": "ranknet-taug-{}", "both": "ranknet-ensemble-taug-{}"}
TITLES = {"dismec": "DiSMEC", "bonsai": "Bonsai"}
EXPONENTS = np.linspace(0, 1, 41)
STEPS = (0.5, 1.0, 1.5, 2.0)  # points of P@1 below that of the plain base
PARTS, RESAMPLES = 3, 200
Floats = NDArray[np.float64]


class Relearned(RankNet):
    """RankNet over predictions that were made before: `known`. It can be trained, but has no base to predict with."""

    known: Unseen

    # Private in the library: no public way leads around training the base, which is what this benchmark saves.
    def _base_and_unseen(self, X: Any, Y: Any, run: Run) -> tuple[list[Any], Unseen]:
        return [SimpleNamespace(score_groups_=self.known.groups)], self.known  # only the number of groups is asked


def part_of(unseen: Unseen, chosen: NDArray[np.bool_]) -> Unseen:
    found = unseen.predictions
    predictions = Predictions(found.labels[chosen], found.scores[chosen])
    return Unseen(unseen.rows[chosen], predictions, unseen.groups[chosen])


def hits_and_gains(recipe: str, train: Dataset) -> dict[str, NDArray[np.float32]]:
    """Return per exponent and point whether the first label is right and its 1/p; without blocks and with them."""
    outer = estimator(recipe)
    k = outer.candidates
    unseen = predict_unseen(lambda: new_part(outer.base), train.X, train.Y, outer, k=k, run=Run())
    part = np.random.default_rng(0).permutation(unseen.rows.size) % PARTS
    shape = (EXPONENTS.size, unseen.rows.size)
    values = {name: np.zeros(shape, np.float32) for name in ("hits", "gains", "closed hits", "closed gains")}
    for number in range(PARTS):
        model = Relearned(**outer.get_params(deep=False))
        model.known, measured = part_of(unseen, part != number), part_of(unseen, part == number)
        model.fit(train.X, train.Y)
        labels = measured.predictions.labels
        log_inverse = np.log(model.inverse_propensities_)
        log_odds = model.calibration_(measured.predictions.scores, measured.groups)
        for prefix, z in (("", model.blocks_(labels, log_odds)), ("closed ", log_odds)):
            for row, exponent in enumerate(EXPONENTS):
                first = best_of(labels, log_quotient(labels, z, log_inverse, exponent), 1)
                hits = Matches.of(first, train.Y[measured.rows]).hits[:, 0]
                values[f"{prefix}hits"][row, part == number] = hits
                gains = np.where(hits, model.inverse_propensities_[first.labels[:, 0]], 0)
                values[f"{prefix}gains"][row, part == number] = gains
    best = train.Y[unseen.rows].multiply(model.inverse_propensities_[None, :]).max(axis=1).toarray()[:, 0]
    order = np.argsort(unseen.rows)  # other recipes have the same points in the same order, but need not
    return {name: array[..., order] for name, array in (values | {"best": best}).items()}


def heights(values: dict[str, NDArray[Any]], prefix: str, weights: Floats, least: Floats) -> Floats:
    """Return PSP@1 in percent at the largest exponent that leaves each P@1 of `least`; points count `weights` times."""
    precision = 100 * (values[f"{prefix}hits"] @ weights) / weights.sum()
    gain = 100 * (values[f"{prefix}gains"] @ weights) / (values["best"] @ weights)
    found = []
    for least_one in least:
        enough = np.flatnonzero(precision >= least_one)
        last = min(int(enough[-1]), EXPONENTS.size - 2) if enough.size else 0
        fall = precision[last] - precision[last + 1]
        way = np.clip((precision[last] - least_one) / fall, 0, 1) if fall > 0 else 1.0
        found.append(gain[last] + way * (gain[last + 1] - gain[last]))
    return np.array(found)


def compared(name: str, train: Dataset) -> dict[str, Any]:
    measured = {title: hits_and_gains(recipe.format(name), train) for title, recipe in RECIPE_OF.items()}
    plain = measured["alone"]
    rng = np.random.default_rng(0)
    samples = [np.ones(train.n_points), *(rng.poisson(1, train.n_points).astype(float) for _ in range(RESAMPLES))]

    def curve(values: dict[str, NDArray[Any]], prefix: str) -> Callable[[Floats], Floats]:
        base = lambda w: 100 * (plain["closed hits"][0] @ w) / w.sum() - np.array(STEPS)  # noqa: E731
        return lambda w: heights(values, prefix, w, base(w))

    rows: dict[str, Any] = {}
    for title, values in measured.items():
        for module, prefix in (("PropensityRerank", "closed "), ("RankNet", "")):
            own, reference = curve(values, prefix), curve(plain, prefix)
            differences = np.array([(own(w) - reference(w)).mean() for w in samples])
            rows[f"{module} {title}"] = {
                "PSP@1": own(samples[0]).round(2).tolist(), "difference": round(float(differences[0]), 2),
                "error": round(float(differences[1:].std()), 2),
            }  # fmt: skip
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bases", nargs="*", default=list(TITLES), metavar="BASE", help="of dismec, bonsai")
    add_out(parser)
    options = parser.parse_args()
    train, _test = data()
    bases = load("tail-modules-together", options.out).get("bases", {})
    for name in options.bases:
        bases[name] = compared(name, train)
        print(name, bases[name], flush=True)
    cells = []
    for name in (name for name in TITLES if name in bases):
        for title, row in bases[name].items():
            difference = "" if title.endswith("alone") else f"{row['difference']:+.2f} ± {row['error']:.2f}"
            cells.append([f"{TITLES[name]}: {title}", *(f"{value:.2f}" for value in row["PSP@1"]), difference])
    header = ["model", *(f"P@1 of the base {-step:+g}" for step in STEPS), "mean difference to alone"]
    table = markdown_table(header, cells)
    write("together", {"bases": bases, "table": table}, options.out, command="python -m benchmarks.tail.together")


if __name__ == "__main__":
    main()
