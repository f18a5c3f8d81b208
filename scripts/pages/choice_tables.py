"""Tables of choose-a-model.md and defaults.md."""

from __future__ import annotations

from typing import Any

from benchmarks.common.tables import markdown_table
from scripts.pages.lab import TITLES, Lab
from scripts.pages.tables import table

_MODELS = {"dismec": "DiSMEC", "dismec-pw-cb": "DiSMEC, PW-cb", "bonsai": "Bonsai", "popularity": "Popularity"}


@table("five-datasets")
def _five(lab: Lab) -> str:
    """The same models side by side, on the test parts; "–" where a model was not measured."""
    sizes, cells = [], []
    for dataset in TITLES:
        some = lab.runs[dataset]["dismec"]
        sizes.append(f"{some['n_train']:,} / {some['n_labels']:,}")
    cells.append(["points / labels in training", *sizes])
    for recipe, title in _MODELS.items():
        cells.append([title, *(_pair(lab.runs[dataset].get(recipe)) for dataset in TITLES)])
    return markdown_table(["P@1 / PSP@1", *TITLES.values()], cells)


def _pair(result: dict[str, Any] | None) -> str:
    return "–" if result is None else f"{result['metrics']['P@1']:.1f} / {result['metrics']['PSP@1']:.1f}"


@table("defaults")
def _defaults(lab: Lab) -> str:
    return str(lab.benchmarks["defaults"]["table"])


@table("defaults-summary")
def _summary(lab: Lab) -> str:
    rows = lab.benchmarks["defaults"]["summary"]
    cells = [
        [
            r["model"],
            f"`{r['parameter']}`",
            r["default"],
            f"{r['default_worst']:.2f}",
            r["choice"],
            f"{r['choice_worst']:.2f}",
        ]
        for r in rows
    ]
    return markdown_table(
        ["", "parameter", "default", "its worst loss", "best value", "its worst loss"], cells, left=(0, 1)
    )
