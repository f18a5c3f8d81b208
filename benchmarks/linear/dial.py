"""What the dial on a weighting costs and gives: a path of strengths, each trained from zero or from the one before.

    python -m benchmarks.linear.dial --dataset eurlex57k [--weighting pw-cb] [--strengths 0 0.25 0.5 0.75 1]

Trains DiSMEC on the training split at every strength, three ways: as it comes (`solver="auto"`), every label on all
points (`solver="full"`), and along a path where each training starts from the dual variables of the one before
(`warm_start=True`, which needs all points, too). Times are CPU seconds of this process, since wall times depend on what
else runs. Metrics are those of the dev split; the test split is not read. Writes
docs/lab/benchmarks/dial-DATASET-WEIGHTING.json.
"""

from __future__ import annotations

import argparse
import sys
import time
from typing import Any

from benchmarks.common import add_out, markdown_table, save
from benchmarks.common.data import add_data_root, features_of, recipe_named
from benchmarks.common.metrics import FEWER
from benchmarks.common.metrics import measured as scored
from benchmarks.common.tables import decimals
from longtail import DiSMEC
from longtail.data import Dataset
from longtail.workflow.apply import conform

WAYS: dict[str, dict[str, Any]] = {
    "auto": {"solver": "auto"},
    "full": {"solver": "full"},
    "path": {"solver": "full", "warm_start": True},
}
DEV = {"eurlex57k": "eurlex57k/dev.jsonl.xz", "debian-depends": "debian-depends/dev.jsonl.xz"}


def measured(train: Dataset, dev: Dataset, options: argparse.Namespace) -> list[dict[str, Any]]:
    """Return one row per strength: CPU seconds of every way, and metrics of the last."""
    rows: list[dict[str, Any]] = [{"strength": strength} for strength in options.strengths]
    for way in options.ways:
        model = DiSMEC(**WAYS[way])
        for row in rows:
            started = time.process_time()
            # The same object: with `warm_start` it begins where its fit before ended, without it at zero.
            model.set_params(weighting=f"{options.weighting}:{row['strength']:g}").fit(train.X, train.Y)
            row[f"{way} cpu s"] = round(time.process_time() - started, 1)
            found = model.predict(conform(dev, model), k=5)
            metrics = scored(found, dev.Y, train.label_counts, train.n_points)
            row |= {f"{way} {metric}": metrics[metric] for metric in FEWER}
            print(way, row, file=sys.stderr, flush=True)
    return rows


def table(rows: list[dict[str, Any]], ways: list[str]) -> str:
    """Return the Markdown table with the metrics of the first way; its last row sums the seconds."""
    head = ["strength", *FEWER, *(f"{way} CPU s" for way in ways)]
    cells = [
        [
            f"{row['strength']:g}",
            *decimals(row, [f"{ways[0]} {metric}" for metric in FEWER]),
            *(f"{row[f'{way} cpu s']:.1f}" for way in ways),
        ]
        for row in rows
    ]
    sums = [f"{sum(row[f'{way} cpu s'] for row in rows):.1f}" for way in ways]
    return markdown_table(head, [*cells, ["all", *[""] * len(FEWER), *sums]], left=())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_data_root(parser)
    parser.add_argument("--dataset", choices=DEV, required=True)
    parser.add_argument("--weighting", choices=("pw", "pw-cb"), default="pw-cb")
    parser.add_argument("--strengths", nargs="+", type=float, default=[0, 0.25, 0.5, 0.75, 1])
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS))
    add_out(parser)
    options = parser.parse_args()
    name = options.dataset
    train, dev = features_of(recipe_named(f"{name}/dismec"), options.data_root, test=DEV[name])
    DiSMEC().fit(train.X, train.Y)  # compiles what each way needs: working sets are for large sets only
    rows = measured(train, dev, options)
    text = table(rows, options.ways)
    print(text)
    command = f"python -m benchmarks.linear.dial --dataset {name} --weighting {options.weighting}"
    command += f" --strengths {' '.join(f'{s:g}' for s in options.strengths)} --ways {' '.join(options.ways)}"
    content = {"weighting": options.weighting, "rows": rows, "table": text}
    save(f"dial-{name}-{options.weighting}", content, command, folder=options.out)


if __name__ == "__main__":
    main()
