"""Milliseconds a document on one CPU core, from what `text_models.py --cpu-points` wrote.

    python benchmarks/text_models.py ... --only NAME ... --points 48 --set epochs=1 device=cpu batch_size=8 \
        --cpu-points 48 --out FOLDER
    python benchmarks/one_core.py --results FOLDER [--json FILE]

The time does not depend on what a network has learned, so a training of a minute will do.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

COLUMNS = ("recipe", "tokens", "ms a text, float32", "ms a text, 8-bit weights")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, required=True)
    parser.add_argument("--json", type=Path)
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
    lines = ["| " + " | ".join(COLUMNS) + " |", "| --- |" + " ---: |" * (len(COLUMNS) - 1)]
    lines += [f"| {row['recipe']} | {row['tokens']} | {row['none']:.0f} | {row['int8']:.0f} |" for row in rows]
    print("\n".join(lines))
    if arguments.json:
        machines = sorted({f"{run['device']}, one thread, torch {run['torch']}" for run in runs})
        published = {"command": "python benchmarks/one_core.py --results FOLDER", "machine": ", ".join(machines)}
        arguments.json.write_text(json.dumps(published | {"table": "\n".join(lines), "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
