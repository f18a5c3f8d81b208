"""Which C DiSMEC should have under a weighting, chosen on the dev part of EURLEX57K.

    python benchmarks/dismec_settings.py --weighting pw-cb [--seeds 0 1 2] [--C 0.8 1 1.25 ...] [--out FILE]

Trains on the training part with every C and seed (the order in which points are visited), ranks the dev part, and takes
the C with the highest mean of P@1, P@3, P@5, PSP@1, PSP@3 and PSP@5 over seeds. The test part is not read.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from peers import METRICS, ROOT, machine

from longtail import DiSMEC
from longtail.bench.prepare import prepared
from longtail.bench.recipe import find_data_root, read_recipe
from longtail.data import Dataset, read_dataset
from longtail.workflow.apply import conform
from longtail.workflow.score import score_predictions

RECIPE = ROOT / "recipes" / "eurlex57k" / "dismec.toml"
WEIGHTINGS = {"none": None, "pw": "pw", "pw-cb": "pw-cb"}
GRID = (0.8, 0.9, 1.0, 1.05, 1.1, 1.15, 1.25, 1.5)


def dev_part(data_root: Path | None) -> tuple[Dataset, Dataset]:
    recipe = replace(read_recipe(RECIPE), test="eurlex57k/dev.jsonl.xz")
    folder = prepared(recipe, find_data_root(data_root, RECIPE), ROOT / ".cache" / "features")
    return read_dataset(folder / "train"), read_dataset(folder / "test")


def measured(train: Dataset, dev: Dataset, **parameters: Any) -> list[float]:
    """The six metrics on the dev part, in the order of METRICS."""
    model = DiSMEC(**parameters).fit(train.X, train.Y)
    predictions = model.predict(conform(dev, model), k=5)
    counts = {"training_counts": train.label_counts, "n_training_points": train.n_points}
    metrics = score_predictions(predictions, dev.Y, **counts).metrics
    return [metrics[name] for name in METRICS]


def rows_of(train: Dataset, dev: Dataset, options: argparse.Namespace) -> list[dict[str, Any]]:
    weighting, rows = WEIGHTINGS[options.weighting], []
    for C in options.C:
        by_seed = [measured(train, dev, weighting=weighting, C=C, random_state=seed) for seed in options.seeds]
        found = dict(zip(METRICS, np.mean(by_seed, axis=0).round(3).tolist(), strict=True))
        spread = float(np.ptp(np.mean(by_seed, axis=1)))
        rows.append({"C": C, **found, "mean": float(np.mean(by_seed)), "seeds_differ": spread})
        print(rows[-1], file=sys.stderr, flush=True)
    return rows


def table(rows: list[dict[str, Any]]) -> str:
    """Markdown, with the best mean in bold."""
    best = max(rows, key=lambda row: row["mean"])
    lines = [f"| C | {' | '.join(METRICS)} | mean |", "|" + " ---: |" * (len(METRICS) + 2)]
    for row in rows:
        mean = f"**{row['mean']:.3f}**" if row is best else f"{row['mean']:.3f}"
        lines.append(f"| {row['C']:g} | {' | '.join(f'{row[name]:.2f}' for name in METRICS)} | {mean} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-root", type=Path)
    parser.add_argument("--weighting", choices=WEIGHTINGS, required=True)
    parser.add_argument("--C", nargs="+", type=float, default=list(GRID))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--out", type=Path, help="write the figures as JSON, e.g. docs/results/benchmarks/NAME.json")
    options = parser.parse_args()
    train, dev = dev_part(options.data_root)
    rows = rows_of(train, dev, options)
    text = table(rows)
    print(text)
    if options.out:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        grid = "" if list(GRID) == options.C else f" --C {' '.join(f'{C:g}' for C in options.C)}"
        command = f"python benchmarks/dismec_settings.py --weighting {options.weighting}{grid}"
        content = {"command": command, "machine": machine(), "seeds": options.seeds}
        options.out.write_text(json.dumps(content | {"table": text, "rows": rows}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
