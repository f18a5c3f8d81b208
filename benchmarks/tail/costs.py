"""What AutoModel believes that a training takes, beside what it takes.

    python -m benchmarks.tail.costs [--datasets bibtex delicious eurlex57k debian-depends yso-finna-en]

Trains Bonsai and DiSMEC with their defaults on one thread and takes the CPU seconds of the process, which other work on
the machine hardly changes. Estimates are in seconds of two cores, so half of the CPU seconds stand beside them. Writes
docs/lab/benchmarks/automodel-costs.json.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

from benchmarks.common import add_out, markdown_table, save
from benchmarks.common.data import add_data_root
from benchmarks.tail.kept import data_of
from longtail.compose.portfolio import KINDS, Look, model_named
from longtail.data import Dataset

DATASETS = ("bibtex", "delicious", "eurlex57k", "debian-depends", "yso-finna-en")
CORES = 2  # of the estimates


def rows_of(dataset: str, train: Dataset) -> list[dict[str, Any]]:
    """Train each kind of model and return estimated and measured seconds."""
    look, rows = Look.at(train.X, train.Y), []
    for kind in KINDS:
        started = time.process_time()
        model_named(kind, n_jobs=1, random_state=0).fit(train.X, train.Y)
        took = (time.process_time() - started) / CORES
        estimated = look.seconds(kind)
        rows.append({
            "dataset": dataset, "model": kind, "estimated": round(estimated, 2), "took": round(took, 2),
            "ratio": round(estimated / took, 2),
        })  # fmt: skip
    return rows


def table(rows: list[dict[str, Any]]) -> str:
    """Return the rows as Markdown."""
    cells = [
        [row["dataset"], row["model"], f"{row['estimated']:.2f}", f"{row['took']:.2f}", f"{row['ratio']:.2f}"]
        for row in rows
    ]
    return markdown_table(["", "", "estimated s", "CPU s / 2", "estimated / took"], cells, left=(0, 1))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_data_root(parser)
    parser.add_argument("--datasets", nargs="+", metavar="NAME", default=DATASETS)
    add_out(parser)
    options = parser.parse_args()
    few = data_of("bibtex", options.data_root)[0]
    for kind in KINDS:  # kernels are compiled once per machine, which is not training
        model_named(kind, n_jobs=1).fit(few.X, few.Y)
    rows = [row for name in options.datasets for row in rows_of(name, data_of(name, options.data_root)[0])]
    print(table(rows))
    save("automodel-costs", {"rows": rows, "table": table(rows)}, "python -m benchmarks.tail.costs", folder=options.out)


if __name__ == "__main__":
    main()
