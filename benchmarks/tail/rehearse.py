"""How rules of choice at a price fare on points held out of training data; no test part is read.

    python -m benchmarks.tail.rehearse --datasets bibtex@0 bibtex@1 delicious@0 eurlex57k@0 [--repeats 8]

DATASET@SEED is a training part in two: models are tried and trained on one, and judged on the other
(`benchmarks.tail.kept` makes the predictions; those that exist are used). Each rule then chooses again and again, by
four fifths of the unseen points drawn at random, among the models and pairs of the portfolio at every exponent. A
choice holds if its P@1 on the judging points is at most 1.2 below the best single model's, its PSP@1 above every
unweighted model's, and at most 1.0 below the best tail variant's with at most that loss: a weighting, or the exponent
or the dial of a model, chosen in the old way (the most PSP@1 at the price). The same rules then choose the exponent of
every single model alone, as re-rankers do: these hold if P@1 is at most 1.3 below the model's own. What they lack is
counted against the best PSP@1 with the same P@1 that any strength of the same kind reaches on the judging points. Last,
they choose strength and exponent together, as PropensityRerank with a dial does, at the price below the unweighted
model. Writes docs/lab/benchmarks/rehearse.json.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.common import add_out, markdown_table, save
from benchmarks.common.data import add_data_root
from benchmarks.tail.kept import MODELS, file_of
from benchmarks.tail.price import PRICE, Measured
from benchmarks.tail.values import Names, Values
from longtail.compose.portfolio import EVERY, KINDS, pairs

SHARE = 0.8  # of the unseen points that one choice sees
SLACK, LACKING = 1.2, 1.0  # points of P@1 and PSP@1 within which a choice holds
SLACK_ALONE = 1.3  # of a re-ranker, below its own base
OLD = (0.5, 0.0)
RULES = [(reserve, least) for reserve in (0.0, 0.25, 0.5, 1.0) for least in (0.0, 0.25, 0.5, 0.75, 1.0)]
_WORTH = 0.2  # as in compose/frontier.py
Point = tuple[int, int]  # choice, exponent


@dataclass(frozen=True, eq=False)
class Rehearsal:
    """Unseen points to choose by, and points to judge the choice."""

    choices: list[Names]
    unseen: Values
    judging: Values

    @classmethod
    def of(cls, dataset: str, root: Path | None) -> Rehearsal:
        names = [name for name in MODELS if file_of(dataset, name).is_file()]
        data = Measured.of(dataset, names, root)
        choices = list(dict.fromkeys([*((name,) for name in names), *pairs([n for n in EVERY if n in names])]))
        return cls(choices, Values.of(data.unseen, choices), Values.of(data.test, choices))

    @cached_property
    def singles(self) -> list[int]:
        return [i for i, names in enumerate(self.choices) if len(names) == 1]

    def draws(self, repeats: int) -> Iterator[Draw]:
        n = self.unseen.possible.size
        for seed in range(repeats):
            yield Draw(self, np.sort(np.random.default_rng(seed).permutation(n)[: round(SHARE * n)]))


class Draw:
    """One draw of unseen points: what a rule chooses by them, and what becomes of it."""

    def __init__(self, data: Rehearsal, rows: NDArray[np.intp]) -> None:
        self.data, self.rows = data, rows
        self._known: dict[int, NDArray[Any]] = {}
        self.kept, self.gained = data.unseen.percent(rows)
        self.judged = data.judging.percent()
        portfolio = [i for i, names in enumerate(data.choices) if all(name in EVERY for name in names)]
        self.portfolio, alone = portfolio, [i for i in portfolio if i in data.singles]
        self.reference = max(alone, key=lambda i: float(self.kept[i, 0]))
        values = data.unseen.kept[:, :, rows]
        self.errors = self._errors(self.reference)
        self.own_errors = 100 * (values - values[:, :1]).std(axis=2) / np.sqrt(rows.size)

    def chosen(
        self, rule: tuple[float, float], among: Sequence[int], reference: int, errors: NDArray[Any] | None = None
    ) -> Point:
        """Return what a rule chooses: share of a standard error in reserve, and what a point of price must buy."""
        reserve, least_gain = rule
        errors = self.errors if errors is None else errors
        loss = self.kept[reference, 0] - self.kept[among] + np.minimum(reserve * errors[among], PRICE / 2)
        second = np.array([[len(self.data.choices[i]) - 1] for i in among])
        worth = np.where(loss <= PRICE, self.gained[among] + least_gain * self.kept[among] - _WORTH * second, -np.inf)
        if not np.isfinite(worth).any():
            return reference, 0
        choice, exponent = np.unravel_index(int(np.argmax(worth)), worth.shape)
        return among[int(choice)], int(exponent)

    def outcome(self, rule: tuple[float, float]) -> tuple[float, float, float]:
        """Return the loss of P@1, what PSP@1 lacks against tail variants, and its gain over unweighted models."""
        kept, gained = self.judged
        best = max(float(kept[i, 0]) for i in self.data.singles)
        point = self.chosen(rule, self.portfolio, self.reference)
        tail = [p for p in self._tail_variants() if kept[p] >= best - SLACK]
        plain = max(float(gained[i, 0]) for i in self.data.singles if self.data.choices[i][0] in KINDS)
        lacking = max((float(gained[p]) for p in tail), default=-np.inf) - float(gained[point])
        return best - float(kept[point]), lacking, float(gained[point]) - plain

    def reranked(self, rule: tuple[float, float]) -> list[tuple[float, float, float]]:
        """Return, per single model, the loss of P@1, what PSP@1 lacks against its dial, and what it gains."""
        kept, gained = self.judged
        found = []
        for i in self.data.singles:
            choice, exponent = self.chosen(rule, [i], i, self.own_errors)
            dial = [j for j in self.data.singles if self._kind(j) == self._kind(i)]
            most = gained[dial][kept[dial] >= kept[choice, exponent] - 1e-6].max()
            own = gained[choice, exponent]
            found.append((float(kept[i, 0] - kept[choice, exponent]), float(most - own), float(own - gained[i, 0])))
        return found

    def dialled(self, rule: tuple[float, float]) -> list[tuple[float, float, float]]:
        """Return the same per kind of model, where the strength is chosen, too."""
        kept, gained = self.judged
        found = []
        for own in (self.data.choices.index((kind,)) for kind in KINDS):
            dial = [j for j in self.data.singles if self._kind(j) == self._kind(own)]
            point = self.chosen(rule, dial, own, self._errors(own))
            most = gained[dial][kept[dial] >= kept[point] - 1e-6].max()
            reached = float(gained[point])
            found.append((float(kept[own, 0] - kept[point]), float(most) - reached, reached - float(gained[own, 0])))
        return found

    def _errors(self, reference: int) -> NDArray[Any]:
        """Return the standard error of every choice's P@1 less that of one model."""
        if reference not in self._known:
            values = self.data.unseen.kept[:, :, self.rows]
            self._known[reference] = 100 * (values - values[reference, 0]).std(axis=2) / np.sqrt(self.rows.size)
        return self._known[reference]

    def _kind(self, choice: int) -> str:
        return self.data.choices[choice][0].split("/")[0]

    def _tail_variants(self) -> list[Point]:
        singles, choices = self.data.singles, self.data.choices
        points = [(i, 0) for i in singles] + [self.chosen(OLD, [i], i) for i in singles]
        for kind in KINDS:
            dial = [i for i in singles if self._kind(i) == kind]
            points.append(self.chosen(OLD, dial, choices.index((kind,))))
        return points


Outcome = tuple[float, float, float]


def row_of(dataset: str, rule: tuple[float, float], outcomes: Sequence[Outcome]) -> dict[str, Any]:
    paid, lacking, above = np.array(outcomes).T
    holds = (paid <= SLACK) & (lacking <= LACKING) & (above > 0)
    return _summary(dataset, rule, holds, paid, lacking) | {"above": round(float(above.mean()), 2)}


def alone_row_of(dataset: str, rule: tuple[float, float], outcomes: Sequence[Outcome]) -> dict[str, Any]:
    paid, lacking, gained = np.array(outcomes).T
    return _summary(dataset, rule, paid <= SLACK_ALONE, paid, lacking) | {"gained": round(float(gained.mean()), 2)}


def _summary(
    dataset: str, rule: tuple[float, float], holds: NDArray[np.bool_], paid: Any, lacking: Any
) -> dict[str, Any]:
    row: dict[str, Any] = {"dataset": dataset, "reserve": rule[0], "least_gain": rule[1], "choices": holds.size}
    row |= {"holds": round(100 * float(holds.mean())), "paid": round(float(paid.mean()), 2)}
    return row | {"lacking": round(float(lacking[np.isfinite(lacking)].mean()), 2)}


def table(rows: list[dict[str, Any]], shown: Sequence[str] = ("paid", "lacking")) -> str:
    """Return the rows as Markdown: rules downwards, datasets sideways."""
    datasets = list(dict.fromkeys(row["dataset"] for row in rows))
    cells = []
    for rule in dict.fromkeys((row["reserve"], row["least_gain"]) for row in rows):
        own = {r["dataset"]: r for r in rows if (r["reserve"], r["least_gain"]) == rule}
        figures = {d: ", ".join(f"{own[d][name]:.2f}" for name in shown) for d in datasets}
        cells.append([f"{rule[0]:g}", f"{rule[1]:g}", *(f"{own[d]['holds']} % ({figures[d]})" for d in datasets)])
    return markdown_table(["reserve", "least gain", *datasets], cells)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_data_root(parser)
    parser.add_argument("--datasets", nargs="+", metavar="NAME@SEED", required=True)
    parser.add_argument("--repeats", type=int, default=8)
    add_out(parser)
    options = parser.parse_args()
    found: dict[tuple[str, tuple[float, float]], list[Outcome]] = {}
    alone: dict[tuple[str, tuple[float, float]], list[Outcome]] = {}
    dialled: dict[tuple[str, tuple[float, float]], list[Outcome]] = {}
    for dataset in options.datasets:
        for draw in Rehearsal.of(dataset, options.data_root).draws(options.repeats):
            for rule in RULES:
                key = dataset.partition("@")[0], rule
                found.setdefault(key, []).append(draw.outcome(rule))
                alone.setdefault(key, []).extend(draw.reranked(rule))
                dialled.setdefault(key, []).extend(draw.dialled(rule))
    rows = [row_of(*key, outcomes) for key, outcomes in found.items()]
    alone_rows = [alone_row_of(*key, outcomes) for key, outcomes in alone.items()]
    dial_rows = [alone_row_of(*key, outcomes) for key, outcomes in dialled.items()]
    content = {
        "rows": rows, "table": table(rows), "alone": alone_rows,
        "alone_table": table(alone_rows, ("paid", "lacking", "gained")), "dial": dial_rows,
        "dial_table": table(dial_rows, ("paid", "lacking", "gained")),
    }  # fmt: skip
    print(content["table"], content["alone_table"], content["dial_table"], sep="\n\n")
    command = f"python -m benchmarks.tail.rehearse --datasets {' '.join(options.datasets)}"
    save("rehearse", content, command, folder=options.out)


if __name__ == "__main__":
    main()
