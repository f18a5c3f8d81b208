"""AutoModel with its default budget next to the models that it chooses from, on the test part of datasets.

    python -m benchmarks.tail.auto --datasets bibtex delicious [--alone]

Trains AutoModel on the training part of each dataset (features as in its recipe of DiSMEC), scores the test part once,
and shows what was chosen. `--alone` also trains single models, and PropensityRerank around each at the default price.
Whatever is chosen is chosen on held-out training points. Times are CPU seconds. Writes
docs/lab/benchmarks/auto-DATASET.json.
"""

from __future__ import annotations

import argparse
import sys
import time
from typing import Any

from benchmarks.common import add_out, markdown_table, save
from benchmarks.common.data import add_data_root, features_of, recipe_named
from longtail import AutoModel, PropensityRerank
from longtail.compose.portfolio import model_named
from longtail.data import Dataset
from longtail.workflow.apply import conform
from longtail.workflow.score import score_predictions

METRICS = ("P@1", "P@5", "PSP@1", "PSP@5", "macro-F1@5", "coverage@5")
SINGLE = ("dismec", "dismec/pw-cb:0.5", "dismec/pw-cb", "bonsai", "bonsai/pw-cb:0.5")
RERANKED = ("dismec", "dismec/pw-cb:0.5", "dismec/pw-cb", "bonsai")


def measured(name: str, model: Any, train: Dataset, test: Dataset) -> dict[str, Any]:
    """Return the row of one model."""
    started = time.process_time()
    model.fit(train.X, train.Y)
    seconds = time.process_time() - started
    found = model.predict(conform(test, model), k=5)
    scored = score_predictions(found, test.Y, training_counts=train.label_counts, n_training_points=train.n_points)
    row = {
        "model": name,
        **{metric: round(scored.metrics[metric], 2) for metric in METRICS},
        "cpu s": round(seconds, 1),
    }
    print(row, file=sys.stderr, flush=True)
    return row


def rows_of(train: Dataset, test: Dataset, *, alone: bool) -> tuple[list[dict[str, Any]], AutoModel]:
    auto = AutoModel()
    rows = [measured("AutoModel", auto, train, test)]
    if alone:
        rows += [measured(name, model_named(name), train, test) for name in SINGLE]
        rows += [
            measured(f"PropensityRerank({name})", PropensityRerank(base=model_named(name)), train, test)
            for name in RERANKED
        ]
    return rows, auto


def table(rows: list[dict[str, Any]]) -> str:
    cells = [[row["model"], *(f"{row[metric]:.2f}" for metric in METRICS), f"{row['cpu s']:.1f}"] for row in rows]
    return markdown_table(["model", *METRICS, "CPU s"], cells)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_data_root(parser)
    parser.add_argument("--datasets", nargs="+", metavar="NAME", required=True)
    parser.add_argument("--alone", action="store_true", help="measure single models, too")
    add_out(parser)
    options = parser.parse_args()
    for name in options.datasets:
        train, test = features_of(recipe_named(f"{name}/dismec"), options.data_root)
        rows, auto = rows_of(train, test, alone=options.alone)
        print("\n".join([name, *auto.report_, table(rows)]))
        command = f"python -m benchmarks.tail.auto --datasets {name}{' --alone' * options.alone}"
        content = {"rows": rows, "report": auto.report_, "choices": auto.choices_, "table": table(rows)}
        save(f"auto-{name}", content, command, folder=options.out)


if __name__ == "__main__":
    main()
