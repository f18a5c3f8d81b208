"""Milliseconds per text on one CPU core, from what text/models.py wrote with --cpu-points.

    python -m benchmarks.text.models ... --only NAME ... --points 48 --set epochs=1 device=cpu batch_size=8 \
        --cpu-points 48 --results FOLDER
    python -m benchmarks.text.one_core --results FOLDER

The time does not depend on what a network has learned, so a training of a minute will do. Writes
docs/lab/benchmarks/one-core.json.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from benchmarks.common import add_out, decimals, markdown_table, save

COLUMNS = ("recipe", "tokens", "ms per text, float32", "ms per text, 8-bit weights")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, required=True)
    add_out(parser)
    arguments = parser.parse_args()
    runs = [json.loads(file.read_text()) for file in sorted(arguments.results.glob("*.json"))]
    runs = [run for run in runs if "one_cpu_thread" in run]
    if not runs:
        parser.error(f"{arguments.results} has no run with --cpu-points")
    rows = [
        {
            "recipe": run["configuration"], "tokens": run["parameters"]["length"],
            **{weights: run["one_cpu_thread"][weights]["ms"] for weights in ("none", "int8")},
        }
        for run in runs
    ]  # fmt: skip
    table = markdown_table(COLUMNS, [[r["recipe"], str(r["tokens"]), *decimals(r, ("none", "int8"), 0)] for r in rows])
    print(table)
    machines = ", ".join(sorted({f"{run['device']}, one thread, torch {run['torch']}" for run in runs}))
    command = "python -m benchmarks.text.one_core --results FOLDER"
    save("one-core", {"table": table, "rows": rows}, command, folder=arguments.out, machine_name=machines)


if __name__ == "__main__":
    main()
