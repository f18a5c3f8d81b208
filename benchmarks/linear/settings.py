"""Which C DiSMEC should have under a weighting, chosen on the dev split of EURLEX57K.

    python -m benchmarks.linear.settings --weighting pw-cb [--seeds 0 1 2] [--C 0.8 1 1.25 ...]

Trains on the training split with every C and seed (the order in which points are visited), ranks the dev split, and
takes the C with the highest mean of P@1, P@3, P@5, PSP@1, PSP@3 and PSP@5 over seeds. The test split is not read.
Writes docs/lab/benchmarks/dismec-settings-WEIGHTING.json.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

import numpy as np

from benchmarks.common import add_out, decimals, markdown_table, save
from benchmarks.common.data import add_data_root, features_of, recipe_named
from benchmarks.common.metrics import METRICS
from longtail import DiSMEC
from longtail.data import Dataset
from longtail.workflow.apply import conform
from longtail.workflow.score import score_predictions

WEIGHTINGS = {"none": None, "pw": "pw", "pw-cb": "pw-cb"}
CHOSEN_BY = METRICS[:6]  # P and PSP at 1, 3, 5: the mean that decides
GRID = (0.8, 0.9, 1.0, 1.05, 1.1, 1.15, 1.25, 1.5)


def measured(train: Dataset, dev: Dataset, **parameters: Any) -> list[float]:
    """Return the metrics on the dev split, in the order of METRICS."""
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
        means = np.mean([values[: len(CHOSEN_BY)] for values in by_seed], axis=1)
        rows.append({"C": C, **found, "mean": float(means.mean()), "seeds_differ": float(np.ptp(means))})
        print(rows[-1], file=sys.stderr, flush=True)
    return rows


def table(rows: list[dict[str, Any]]) -> str:
    """Return the Markdown table, with the best mean in bold."""
    best = max(rows, key=lambda row: row["mean"])
    cells = []
    for row in rows:
        mean = f"**{row['mean']:.3f}**" if row is best else f"{row['mean']:.3f}"
        cells.append([f"{row['C']:g}", *decimals(row, METRICS), mean])
    return markdown_table(["C", *METRICS, "mean"], cells, left=())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_data_root(parser)
    parser.add_argument("--weighting", choices=WEIGHTINGS, required=True)
    parser.add_argument("--C", nargs="+", type=float, default=list(GRID))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    add_out(parser)
    options = parser.parse_args()
    recipe = recipe_named("eurlex57k/dismec")
    train, dev = features_of(recipe, options.data_root, test="eurlex57k/dev.jsonl.xz")
    rows = rows_of(train, dev, options)
    text = table(rows)
    print(text)
    grid = "" if list(GRID) == options.C else f" --C {' '.join(f'{C:g}' for C in options.C)}"
    command = f"python -m benchmarks.linear.settings --weighting {options.weighting}{grid}"
    content = {"seeds": options.seeds, "table": text, "rows": rows}
    save(f"dismec-settings-{options.weighting}", content, command, folder=options.out)


if __name__ == "__main__":
    main()
