"""What the price keeps on test points: AutoModel, re-rankers and the dial, next to everything that they choose from.

    python -m benchmarks.tail.price --datasets bibtex delicious [--threads N]

Takes the predictions of `benchmarks.tail.kept`, and makes those that are missing (`--models none`: none). Every choice
is made on unseen training points, by the code of AutoModel and at its default price; the test points are only scored.
Beside each row stands the best PSP@1 that a sweep of dial and exponent finds on the test points themselves at the same
P@1 or more: what a perfect choice would have had. The best of two hundred is partly luck, so `elsewhere` says what the
best on one half of the test points has more than the choice on the other half. Writes
docs/lab/benchmarks/price-DATASET.json.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common import add_out, decimals, markdown_table, save
from benchmarks.common.data import add_data_root
from benchmarks.common.metrics import BESIDE_PSP, FIRST
from benchmarks.tail.kept import MODELS, data_of, file_of, kept, make, splits_of
from benchmarks.tail.values import Names, Values, elsewhere, ranked
from longtail.compose import frontier
from longtail.compose.candidates import Candidates
from longtail.compose.dial import chosen_on
from longtail.compose.frontier import Reached, Trials
from longtail.compose.portfolio import EVERY, KINDS, Look, pairs, planned
from longtail.compose.price import Frontier
from longtail.metrics import Matches, paired_bootstrap, score
from longtail.metrics.labelwise import padded_counts
from longtail.metrics.pointwise import Terms
from longtail.objectives import PropensityModel

PRICE = 1.0


@dataclass(frozen=True, eq=False)
class Measured:
    """Curves of models and pairs on unseen points and on test points; both are calibrated on the unseen ones."""

    unseen: Trials
    test: Trials
    look: Look

    @classmethod
    def of(cls, dataset: str, names: Sequence[str], root: Path | None) -> Measured:
        train, test = data_of(dataset, root)
        rows = np.concatenate([rows for _, rows in splits_of(train).split(train.n_points)])

        def trials(part: str, truth: Any) -> Trials:
            counts = padded_counts(train.label_counts, truth.shape[1])  # test points have labels that training lacks
            inverse = np.asarray(PropensityModel().inverse(counts, train.n_points))
            return Trials({name: kept(dataset, name, part) for name in names}, truth, inverse, "P@1")

        unseen, tested = trials("unseen", train.Y[rows]), trials("test", test.Y)
        vars(tested)["calibrations"] = unseen.calibrations
        return cls(unseen, tested, Look.at(train.X, train.Y))

    @cached_property
    def curves(self) -> dict[Names, tuple[list[Reached], list[Reached]]]:
        """Per model or pair of the portfolio: its curve on unseen points and on test points."""
        every = [name for name in EVERY if name in self.unseen.found]
        wanted = dict.fromkeys([*((name,) for name in self.unseen.found), *pairs(every)])
        return {names: (self.unseen.curve(names), self.test.curve(names)) for names in wanted}

    def chosen(self, among: Iterable[Names], reference: Reached) -> tuple[Reached, Reached]:
        """Return what is chosen at the price on unseen points, and what that reaches on test points."""
        best = frontier.best([self.curves[names][0] for names in among], reference, PRICE)
        best = self.unseen.refined(best, reference, PRICE)
        return best, self.test.curve(best.names, np.array([best.exponent]))[0]

    def reranked(self, name: str) -> tuple[Reached, Reached]:
        """Return what PropensityRerank around a model reaches with the exponent that it chooses at the price."""
        trials, held = self.unseen, self._held(name)
        paid = Frontier.below_base(held, trials.inverse_propensities, PRICE / 100)
        exponent = np.array([paid.exponent(held.log_odds, PRICE / 100)])
        return trials.curve((name,), exponent)[0], self.test.curve((name,), exponent)[0]

    def _held(self, name: str) -> Candidates:
        trials, found = self.unseen, self.unseen.found[name]
        log_odds = trials.calibrations[name](found.scores.astype(np.float64))
        return Candidates(found.labels, log_odds, Matches.of(found, trials.truth).hits, trials.truth)

    def dialled(self, kind: str) -> tuple[Reached, Reached]:
        """Return what PropensityRerank with a dial around a kind of model reaches with what it chooses at the price."""
        names = [name for name in self.unseen.found if name.split("/")[0] == kind]
        names.sort(key=lambda name: name != kind)  # the price counts from the first
        trials = self.unseen
        held = [self._held(name) for name in names]
        number, exponent = chosen_on(held, trials.inverse_propensities, PRICE / 100, "P@1")
        at = (names[number],), np.array([exponent])
        return trials.curve(*at)[0], self.test.curve(*at)[0]

    def paid(self, base: Reached, reached: Reached) -> dict[str, Any]:
        """Return how much P@1 is lost on test points, with its 95 % interval by a paired bootstrap."""
        first, then = ({"P@1": Terms(self.test.point_values(one))} for one in (base, reached))
        lost = paired_bootstrap(first, then)["P@1"]
        return {"paid": round(100 * lost.value, 2), "interval": [round(100 * v, 2) for v in (lost.low, lost.high)]}

    def row(self, title: str, reached: Reached) -> dict[str, Any]:
        """Return what is reached on test points."""
        matches = Matches.of(ranked(self.test, reached.names, reached.exponent, 5), self.test.truth)
        found = {"P@1": reached.kept, "PSP@1": reached.gained}
        found |= {name: 100 * score(matches, name) for name in BESIDE_PSP}
        return {"model": title} | {name: round(float(found[name]), 2) for name in FIRST}

    def most(self, among: Iterable[Names], least: float) -> float:
        """Return the most PSP@1 that a sweep finds on test points with this P@1 or more."""
        return max(r.gained for names in among for r in self.curves[names][1] if r.kept >= least - 1e-9)

    def lacking(self, among: Iterable[Names], chosen: Reached, reached: Reached) -> dict[str, Any]:
        """Return what a choice lacks on test points against a sweep among these, and what was chosen."""
        lacks = round(max(self.most(among, reached.kept) - reached.gained, 0.0), 2)
        return {"lacks": lacks, "chosen": list(chosen.names), "exponent": round(chosen.exponent, 4)}


def rows_of(data: Measured) -> list[dict[str, Any]]:
    """Return the rows of single models, re-rankers, the dial of each kind, and AutoModel."""
    names = list(data.unseen.found)
    rows = [data.row(name, data.test.as_it_is(name)) for name in names]
    for kind in KINDS:
        dial = [(name,) for name in names if name.split("/")[0] == kind]
        sweep = Values.of(data.test, dial)
        chosen = {f"PropensityRerank({name})": (name, data.reranked(name)) for (name,) in dial}
        chosen[f"PropensityRerank({kind}, dial)"] = kind, data.dialled(kind)
        chosen[f"the dial of {kind}"] = kind, data.chosen(dial, data.unseen.as_it_is(kind))
        for title, (own, (best, reached)) in chosen.items():
            lost = data.paid(data.test.as_it_is(own), reached)
            other = elsewhere(sweep, Values.of(data.test, [best.names], [best.exponent]))
            rows.append(data.row(title, reached) | lost | data.lacking(dial, best, reached) | {"elsewhere": other})
    for title, minutes in (("AutoModel", None), ("AutoModel, an hour", 60.0)):
        plan = planned(data.look, minutes, names=[name for name in EVERY if name in names])
        reference = max((data.unseen.as_it_is(name) for name in plan.tried), key=lambda r: r.kept)
        best, reached = data.chosen(plan.choices(), reference)
        base = max((data.test.as_it_is(name) for name in names), key=lambda r: r.kept)
        lost = data.paid(base, reached)
        rows.append(data.row(title, reached) | lost | data.lacking(data.curves, best, reached))
    return rows


def table(rows: list[dict[str, Any]]) -> str:
    """Return the rows as Markdown."""
    cells = [
        [
            row["model"], *decimals(row, FIRST),
            f"{row['paid']:.2f} ({row['interval'][0]:.2f} to {row['interval'][1]:.2f})" if "paid" in row else "–",
            f"{row['lacks']:.2f}" if "lacks" in row else "–",
            f"{' + '.join(row['chosen'])} ^ {row['exponent']:g}" if "chosen" in row else "–",
        ]
        for row in rows
    ]  # fmt: skip
    return markdown_table(["", *FIRST, "P@1 paid", "PSP@1 lacking", "chosen ^ exponent"], cells, left=(0, 7))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_data_root(parser)
    parser.add_argument("--datasets", nargs="+", metavar="NAME", required=True)
    parser.add_argument("--models", nargs="+", metavar="NAME", default=MODELS, help="that are made if they are missing")
    parser.add_argument("--threads", type=int, default=-1)
    add_out(parser)
    options = parser.parse_args()
    for dataset in options.datasets:
        missing = [name for name in options.models if name in MODELS and not file_of(dataset, name).is_file()]
        for name in missing:
            make(dataset, name, *data_of(dataset, options.data_root), options.threads)
        data = Measured.of(dataset, [name for name in MODELS if file_of(dataset, name).is_file()], options.data_root)
        rows = rows_of(data)
        print(dataset, table(rows), sep="\n")
        content = {"rows": rows, "table": table(rows), "unseen points": data.unseen.truth.shape[0]}
        save(f"price-{dataset}", content, f"python -m benchmarks.tail.price --datasets {dataset}", folder=options.out)


if __name__ == "__main__":
    main()
