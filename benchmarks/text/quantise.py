"""What 8-bit weights cost and gain: X-GRank on titles of yso-finna-en, trained and used on one CPU core.

    python -m benchmarks.text.quantise --data FOLDER --encoder MINILM [--long FILE] [--points 20000]

FOLDER holds train and test .jsonl.xz (`text`, `labels`). Trains on the first points, then predicts test points with
float32 and with 8-bit weights, one thread each: P@k and milliseconds per title. --long: a .jsonl.xz of long texts, of
which 64 are timed too, 512 tokens each, with a network that has hardly been trained: answers do not matter there.
Writes docs/lab/benchmarks/quantise.json.
"""

from __future__ import annotations

import argparse
import platform
from pathlib import Path
from typing import Any

import torch

from benchmarks.common import add_out, markdown_table, save
from benchmarks.text.texts import Notes, indicator, on_one_thread, read
from longtail import XGRank
from longtail.core.run import Run

SETTINGS: dict[str, Any] = {
    "length": 64, "layers": 1, "loss": "bce", "epochs": 3, "batch_size": 64, "learning_rate": 2e-4,
    "head_learning_rate": 3e-3, "dropout": 0.1, "n_jobs": 1, "device": "cpu",
}  # fmt: skip
LONG_TEXTS = 64


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    texts, labels = read(arguments.data / "train.jsonl.xz")
    texts, labels = texts[: arguments.points], labels[: arguments.points]
    column = {label: i for i, label in enumerate(sorted({label for row in labels for label in row}))}
    model = XGRank(encoder=arguments.encoder, **SETTINGS)
    model.fit(texts, indicator(labels, column), run=Run(progress=Notes()))
    test, true = read(arguments.data / "test.jsonl.xz")
    found = {"titles": on_one_thread(model, (test, indicator(true, column)), arguments.test_points)}
    if arguments.long:
        texts, labels = (part[:LONG_TEXTS] for part in read(arguments.long))
        column = {label: i for i, label in enumerate(sorted({label for row in labels for label in row}))}
        Y = indicator(labels, column)
        model = XGRank(encoder=arguments.encoder, **SETTINGS | {"length": 512, "epochs": 1, "batch_size": 4})
        found["long texts"] = on_one_thread(model.fit(texts[:4], Y[:4]), (texts, Y), LONG_TEXTS)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--encoder", required=True)
    parser.add_argument("--long", type=Path)
    parser.add_argument("--points", type=int, default=20_000)
    parser.add_argument("--test-points", type=int, default=3_000)
    add_out(parser)
    arguments = parser.parse_args()
    found = measure(arguments)
    cells = []
    for what, rows in found.items():
        for weights, row in rows.items():
            figures = [f"{value:.2f}" for value in row["P"]] if what == "titles" else ["", "", ""]
            cells.append([f"{what}, {weights}", *figures, f"{row['ms']:.1f}"])
    table = markdown_table(["one thread", "P@1", "P@3", "P@5", "ms per text"], cells)
    print(table)
    sizes = {"training_points": arguments.points, "test_points": arguments.test_points}
    command = f"python -m benchmarks.text.quantise --data FOLDER --encoder MINILM --points {arguments.points} "
    command += f"--test-points {arguments.test_points} --long FILE"
    machine = f"{platform.machine()}, torch {torch.__version__}"
    save("quantise", sizes | {"table": table, "found": found}, command, folder=arguments.out, machine_name=machine)


if __name__ == "__main__":
    main()
