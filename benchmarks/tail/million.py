"""What RankNet takes on top of its base as labels grow: time and memory with 10^4 to 10^6 labels.

    python -m benchmarks.tail.million [--labels 10000 100000 1000000]

Made-up data as in benchmarks/trees/growth.py, as many points as labels. One tree of Parabel learns nine tenths of them,
the rest is left to RankNet (prefit, at most 100,000 points, as by default). Every size runs in its own process. Writes
docs/lab/benchmarks/tail-modules-million.json.
"""

from __future__ import annotations

import argparse
import json
import time
from typing import Any

import numpy as np

from benchmarks.common import add_out, markdown_table
from benchmarks.common.process import measured_apart
from benchmarks.common.size import megabytes
from benchmarks.tail.modules import in_turns, write
from longtail import Parabel, RankNet
from longtail.bench import memory
from longtail.data import make_longtail

COLUMNS = {
    "labels": "labels", "base_s": "base: train s", "base_mb": "base: MB", "train_s": "RankNet: train s",
    "training_mb": "RankNet: peak MB above data and base", "times": "prediction / base",
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--labels", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    add_out(parser)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure(options.one)))
        return
    rows = []
    for n_labels in options.labels:
        rows.append(measured_apart(__spec__.name, "--one", n_labels))
        print(rows[-1], flush=True)
    cells = [[f"{row[key]:,.2f}" if key == "times" else f"{row[key]:,.0f}" for key in COLUMNS] for row in rows]
    content = {"rows": rows, "table": markdown_table(list(COLUMNS.values()), cells)}
    write("million", content, options.out, command="python -m benchmarks.tail.million")


def measure(n_labels: int) -> dict[str, Any]:
    """Train both at this size, in this process."""
    made = make_longtail(n_labels, int(300 * np.sqrt(n_labels)), n_labels, n_test_points=2000)
    known = made.train.n_points * 9 // 10
    X, Y = made.train.X, made.train.Y
    started = time.perf_counter()
    base = Parabel(n_trees=1).fit(X[:known], Y[:known])
    base_s = time.perf_counter() - started
    before = memory.resident()
    memory.reset_peak()
    started = time.perf_counter()
    model = RankNet(base=base, prefit=True).fit(X[known:], Y[known:])
    train_s = time.perf_counter() - started
    training_mb = (memory.peak() - before) / 2**20
    alone, through = in_turns(base, model, [made.test.X] * 5)
    return {
        "labels": n_labels, "base_s": base_s, "base_mb": megabytes(base), "train_s": train_s,
        "training_mb": training_mb, "blocks": int(model.blocks_.bias.shape[0]), "held_out_psp": model.held_out_psp_,
        "times": through / alone,
    }  # fmt: skip


if __name__ == "__main__":
    main()
