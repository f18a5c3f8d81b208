"""Tables of choose-a-model.md, auto.md, tune.md and defaults.md, and of the dial in dismec.md."""

from __future__ import annotations

from typing import Any

from benchmarks.common.metrics import FIRST
from benchmarks.common.tables import decimals, markdown_table
from longtail.core import registry
from scripts.pages.lab import TITLES, Lab
from scripts.pages.tables import TABLES, stored, table

# Row of `benchmarks.tail.price`: title, and the recipe that stands in where it was not measured.
_MODELS = {
    "dismec": ("DiSMEC", "dismec"),
    "dismec/pw-cb:0.5": ("DiSMEC, PW-cb:0.5", None),
    "dismec/pw-cb": ("DiSMEC, PW-cb", "dismec-pw-cb"),
    "bonsai": ("Bonsai", "bonsai"),
    "bonsai/pw-cb:0.5": ("Bonsai, PW-cb:0.5", None),
    "PropensityRerank(dismec)": ("PropensityRerank(DiSMEC)", None),
    "PropensityRerank(bonsai)": ("PropensityRerank(Bonsai)", None),
    "AutoModel": ("AutoModel", None),
    "popularity": ("Popularity", "popularity"),
}
_SLACK = 0.2  # points of P@1 that a test part may differ from the price


@table("five-datasets")
def _five(lab: Lab) -> str:
    """The same models side by side, on the test parts; "–" where a model was not measured."""
    sizes = [f"{some['n_train']:,} / {some['n_labels']:,}" for some in (lab.runs[d]["dismec"] for d in TITLES)]
    cells = [["points / labels in training", *sizes]]
    for name, (title, recipe) in _MODELS.items():
        cells.append([title, *(_figures(lab, dataset, name, recipe) for dataset in TITLES)])
    return markdown_table([" / ".join(FIRST), *TITLES.values()], cells)


def _figures(lab: Lab, dataset: str, name: str, recipe: str | None) -> str:
    measured = _priced(lab, dataset).get(name)
    run = lab.runs[dataset].get(recipe) if recipe else None
    found = measured or (run["metrics"] if run else None)
    if found is None:
        return "–"
    own = "" if measured or run is None or _has_defaults(run) else "*"
    return " / ".join(decimals(found, FIRST, 1)) + own


def _has_defaults(run: dict[str, Any]) -> bool:
    usual = registry.estimator_class(run["model"])().get_params()
    return all(value == usual[key] for key, value in run["parameters"].items() if key != "weighting")


def _priced(lab: Lab, dataset: str) -> dict[str, dict[str, Any]]:
    return {row["model"]: row for row in lab.benchmarks.get(f"price-{dataset}", {}).get("rows", [])}


@table("price")
def _price(lab: Lab) -> str:
    """AutoModel at its default budget beside the best single model and the best tail variant at that price."""
    cells = []
    for dataset, title in TITLES.items():
        rows = _priced(lab, dataset)
        if not rows:
            continue
        auto, single = rows["AutoModel"], [row for row in rows.values() if "chosen" not in row]
        first = max(single, key=lambda row: row["P@1"])
        plain = max(row["PSP@1"] for row in single if "/" not in row["model"])
        least = first["P@1"] - 1 - _SLACK
        tail = [row for row in rows.values() if not row["model"].startswith("AutoModel") and row["P@1"] >= least]
        best = max(tail, key=lambda row: row["PSP@1"])
        cells.append([
            title, f"{' + '.join(auto['chosen'])}, {auto['exponent']:.3g}", *decimals(auto, FIRST),
            f"{first['P@1']:.2f} ({first['model']})", _paid(auto), f"{plain:.2f}",
            f"{best['PSP@1']:.2f} ({best['model']})", f"{auto['lacks']:.2f}",
        ])  # fmt: skip
    header = [
        "", "chosen, exponent", *FIRST, "best P@1 of a single model", "P@1 paid (95 %)",
        "best PSP@1 without a weighting", "best PSP@1 of a tail variant at the price", "lacking against the sweep",
    ]  # fmt: skip
    return markdown_table(header, cells, left=(0, 1))


def _paid(row: dict[str, Any]) -> str:
    """What was lost of P@1, with its interval by a paired bootstrap."""
    low, high = row["interval"]
    return f"{row['paid']:.2f} ({low:.1f} to {high:.1f})"


@table("dial-sweep")
def _sweep(lab: Lab) -> str:
    """What the dial and the exponent, chosen at the price, keep and lack on test parts."""
    cells = []
    for dataset, title in TITLES.items():
        rows = _priced(lab, dataset)
        for name in (
            "the dial of dismec",
            "PropensityRerank(dismec, dial)",
            "PropensityRerank(dismec)",
            "the dial of bonsai",
            "PropensityRerank(bonsai, dial)",
            "PropensityRerank(bonsai)",
        ):
            if name in rows:
                row = rows[name]
                chosen = f"{row['chosen'][0]}, {row['exponent']:.3g}"
                figures = [*decimals(row, FIRST), _paid(row), f"{row['lacks']:.2f}"]
                cells.append([title, name, chosen, *figures, _elsewhere(row)])
    header = [
        "", "at price 1", "chosen, exponent", *FIRST, "P@1 paid (95 %)", "lacking against the sweep",
        "its best on other points, P@1 / PSP@1",
    ]  # fmt: skip
    return markdown_table(header, cells, left=(0, 1, 2))


def _elsewhere(row: dict[str, Any]) -> str:
    """What the best of the sweep has more than the choice on points that it was not found on."""
    other = row.get("elsewhere")
    return "–" if other is None else f"{other['P@1']:+.2f} / {other['PSP@1']:+.2f}"


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


TABLES["rehearse"] = stored("rehearse")
TABLES["rehearse-alone"] = stored("rehearse", "alone_table")
TABLES["rehearse-dial"] = stored("rehearse", "dial_table")
TABLES["bonsai-depth"] = stored("bonsai-depth")
TABLES["bonsai-depth-losses"] = stored("bonsai-depth", "losses")
TABLES["dial-path"] = stored("dial-eurlex57k-pw-cb")
TABLES["tune-eurlex57k"] = stored("tune-eurlex57k")
TABLES["defaults"] = stored("defaults")
