"""How much tuning one parameter would give on each of several datasets, and which values lose least on the worst.

    python -m benchmarks.tune.defaults [--only DATASET ...] [--models MODEL ...] [--threads N]

`benchmarks/tune/defaults.toml` holds the grid. Every value is fitted on the training part of every dataset, with all
other parameters at their defaults, and scored on the held-out part; beams are swept on the predictions of the default
fit. The loss of a value is what it lacks against the best value of the same parameter on the same dataset; the rule
takes the value whose largest loss over datasets is smallest. Writes docs/lab/benchmarks/defaults.json after every fit,
and a fit that is in the file already is not repeated.
"""

from __future__ import annotations

import argparse
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.common import add_out, load, markdown_table, save
from benchmarks.common.data import add_data_root, data_root
from longtail.bench.split import sampled
from longtail.data import Dataset, read_dataset
from longtail.objectives import PropensityModel
from longtail.tune.candidate import Candidate
from longtail.tune.fit import fit
from longtail.tune.points import Part, prepared_parts, splits_of
from longtail.tune.space import UNIT_ROWS
from longtail.workflow.build import build_estimator

GRID = Path(__file__).with_suffix(".toml")
COMMAND = "python -m benchmarks.tune.defaults"
FEATURES, NAME = "features", "defaults"


def settings(plan: dict[str, Any], *, text: bool) -> Iterator[tuple[str, str, Any]]:
    """Yield model (or "features"), parameter and value of every fit; the defaults come first."""
    for model, parameters in plan["grid"].items():
        if model != FEATURES:
            yield model, "defaults", None
        if model == FEATURES and not text:
            continue
        for parameter, values in parameters.items():
            yield from ((model, parameter, value) for value in values if value != usual(plan, model, parameter))


def usual(plan: dict[str, Any], model: str, parameter: str) -> Any:
    """Return the value of a parameter while others are moved."""
    return plan["fixed"].get(model, {}).get(parameter, default(model, parameter))


def default(model: str, parameter: str) -> Any:
    """Return the default of a parameter."""
    if model == FEATURES:
        value = build_estimator("dismec", text=True).get_params()[f"features__{parameter}"]
        return list(value) if isinstance(value, tuple) else value
    return build_estimator(model).get_params()[parameter]


def one_part(data: Dataset, plan: dict[str, Any], features: dict[str, Any]) -> Part:
    splits = splits_of(data.n_points, plan["held_out"], None, plan["split_seed"])
    (part,) = prepared_parts(data, splits, reads_texts=False, features=features, propensity=PropensityModel())
    return part


def measured(part: Part, model: str, values: dict[str, Any], objectives: list[str], threads: int) -> dict[str, Any]:
    """Return the metrics of a fit, seconds and size; by beam where the model has one and `beam` is not set."""
    candidate = Candidate(model, values, threads=threads)
    outcome = fit(candidate, [part], objectives, swept={"beam"})
    plain = next(point for point in outcome.curve if point.get("beam", 10) == 10)
    beams = {str(point["beam"]): point["metrics"] for point in outcome.curve if "beam" in point}
    return plain["metrics"] | {"seconds": round(outcome.seconds, 2)} | ({"beams": beams} if beams else {})


def run(name: str, plan: dict[str, Any], rows: list[dict[str, Any]], options: argparse.Namespace) -> None:
    """Fit everything that is missing for a dataset, and save after every fit."""
    entry = plan["datasets"][name]
    data = read_dataset(data_root(options.data_root) / entry["train"])
    data = sampled(data, entry.get("sample", data.n_points), plan["split_seed"])
    text, done = data.X is None, {(r["dataset"], r["model"], r["parameter"], str(r["value"])) for r in rows}
    fixed = plan["fixed"][FEATURES]
    part_of_all = one_part(data, plan, fixed)
    for model, parameter, value in settings(plan, text=text):
        if (name, model, parameter, str(value)) in done or (options.models and model not in options.models):
            continue
        if parameter not in ("defaults", *entry.get("parameters", [parameter])):
            continue
        part = one_part(data, plan, fixed | {parameter: value}) if model == FEATURES else part_of_all
        values = {UNIT_ROWS: True} if entry.get("unit_rows") else {}
        values |= {} if model == FEATURES or value is None else {parameter: value}
        figures = measured(part, "dismec" if model == FEATURES else model, values, plan["objectives"], options.threads)
        row = {"dataset": name, "points": data.n_points, "model": model, "parameter": parameter, "value": value}
        rows.append(row | figures)
        print(rows[-1], file=sys.stderr, flush=True)
        record(rows, plan, options.out)


def record(rows: list[dict[str, Any]], plan: dict[str, Any], folder: Path) -> None:
    """Write the measurement file."""
    points = {row["dataset"]: row["points"] for row in rows}
    said = ", ".join(f"{name} {n:,}" for name, n in points.items())
    content = {"rule": "smallest worst loss of the mean of " + ", ".join(plan["rule"]), "points": said}
    content |= {"table": table(rows, plan), "summary": summary(rows, plan), "rows": rows}
    save(NAME, content, COMMAND, folder=folder)


def value_scores(
    rows: list[dict[str, Any]], plan: dict[str, Any]
) -> dict[tuple[str, str], dict[Any, dict[str, float]]]:
    """Return per parameter and value the mean of the rule's metrics per dataset."""
    plain = {(r["dataset"], r["model"]): r for r in rows if r["parameter"] == "defaults"}
    found: dict[tuple[str, str], dict[Any, dict[str, float]]] = {}

    def add(model: str, parameter: str, value: Any, dataset: str, metrics: dict[str, float]) -> None:
        score = sum(metrics[name] for name in plan["rule"]) / len(plan["rule"])
        found.setdefault((model, parameter), {}).setdefault(str(value), {})[dataset] = score

    for row in rows:
        if row["parameter"] != "defaults":
            add(row["model"], row["parameter"], row["value"], row["dataset"], row)
    for model, parameter in list(found):
        for (dataset, owner), row in plain.items():
            measured_here = any(dataset in scores for scores in found[model, parameter].values())
            if owner == ("dismec" if model == FEATURES else model) and measured_here:
                add(model, parameter, usual(plan, model, parameter), dataset, row)
    for (dataset, model), row in plain.items():
        for beam, metrics in row.get("beams", {}).items():
            add(model, "beam", int(beam), dataset, metrics)
    return found


def losses_of(rows: list[dict[str, Any]], plan: dict[str, Any]) -> dict[tuple[str, str], dict[str, dict[str, float]]]:
    """Return what each value of each parameter lacks against the best value, per dataset that has them all."""
    found = {}
    for key, scores in sorted(value_scores(rows, plan).items()):
        everywhere = [d for d in plan["datasets"] if all(d in by for by in scores.values())]
        if everywhere:
            best = {d: max(by[d] for by in scores.values()) for d in everywhere}
            found[key] = {value: {d: best[d] - by[d] for d in everywhere} for value, by in scores.items()}
    return found


def choice(losses: dict[str, dict[str, float]]) -> str:
    """Return the value whose worst loss is smallest: the rule."""
    return min(losses, key=lambda value: max(losses[value].values()))


def summary(rows: list[dict[str, Any]], plan: dict[str, Any]) -> list[dict[str, Any]]:
    """Return, per parameter, the default and the rule's choice with their worst losses."""
    found = []
    for (model, parameter), losses in losses_of(rows, plan).items():
        today, best = str(default(model, parameter)), choice(losses)
        found.append(
            {
                "model": model,
                "parameter": parameter,
                "default": today,
                "choice": best,
                "default_worst": max(losses[today].values()),
                "choice_worst": max(losses[best].values()),
            }
        )
    return found


def table(rows: list[dict[str, Any]], plan: dict[str, Any]) -> str:
    """Return, per parameter and value, the loss on every dataset and the largest; the rule's choice in bold."""
    cells = []
    for (model, parameter), losses in losses_of(rows, plan).items():
        for value in sorted(losses, key=_order):
            shown = f"**{value}**" if value == choice(losses) else value
            mark = " (default)" if value == str(default(model, parameter)) else ""
            figures = [f"{losses[value][d]:.2f}" if d in losses[value] else "–" for d in plan["datasets"]]
            cells.append([model, f"`{parameter}`", shown + mark, *figures, f"{max(losses[value].values()):.2f}"])
    return markdown_table(["", "parameter", "value", *plan["datasets"], "worst"], cells, left=(0, 1, 2))


def _order(value: str) -> tuple[float, str]:
    try:
        return float(value), value
    except ValueError:
        return 0.0, value


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_data_root(parser)
    plan = tomllib.loads(GRID.read_text(encoding="utf-8"))
    parser.add_argument(
        "--only", nargs="*", metavar="DATASET", default=list(plan["datasets"]), help="none: no new fits"
    )
    parser.add_argument("--models", nargs="+", choices=plan["grid"])
    parser.add_argument("--threads", type=int, default=-1)
    add_out(parser)
    options = parser.parse_args()
    rows = load(NAME, options.out).get("rows", [])
    for name in options.only:
        run(name, plan, rows, options)
    record(rows, plan, options.out)
    print(table(rows, plan))


if __name__ == "__main__":
    main()
