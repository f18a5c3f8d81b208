"""`longtail train` and `longtail predict` from file to file, and where their time goes.

    python -m benchmarks.commands.end_to_end [--train FILE] [--test FILE] [--repeat 3]

The whole commands run in processes of their own, with compiled kernels in Numba's cache. The stages are those of one
process: read, features, train, write; read, features, rank, write. Seconds are the best of all runs; CPU seconds
(user and system, all threads) hardly depend on what else the machine does. The files are those of EURLEX57K by
default. Writes docs/lab/benchmarks/end-to-end.json.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.commands.start import LONGTAIL, best, timed
from benchmarks.common import add_out, markdown_table, save
from benchmarks.common.data import data_root
from benchmarks.common.process import measured_apart

TRAIN, TEST = "eurlex57k/train.jsonl.xz", "eurlex57k/test.jsonl.xz"
WANTED = {"train": 20.0, "predict": 4.0}


class Stages:
    """Seconds and CPU seconds of named stages of this process."""

    def __init__(self) -> None:
        self.found: dict[str, dict[str, float]] = {}

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        start, cpu = time.perf_counter(), time.process_time()
        yield
        self.found[name] = {"seconds": time.perf_counter() - start, "cpu_s": time.process_time() - cpu}


def stages_of(train: Path, test: Path, folder: Path) -> dict[str, dict[str, float]]:
    """Do what both commands do, stage by stage; the folder has the model that the whole command wrote."""
    timer = Stages()
    with timer.stage("train: import"):
        from longtail import DiSMEC, TextFeatures, load_model
        from longtail.data import read_dataset, write_predictions
    with timer.stage("train: read"):
        data = read_dataset(train)
    features, model = TextFeatures(), DiSMEC()
    with timer.stage("train: features"):
        X = features.fit_transform(data.texts)
    with timer.stage("train: solver"):
        model.fit(X, data.Y, label_names=data.label_names)
    with timer.stage("train: write"):
        model.save(folder / "stages", overwrite=True)
    with timer.stage("predict: load"):
        loaded = load_model(folder / "model")
    with timer.stage("predict: read"):
        unlabelled = read_dataset(test, labels=None)
    with timer.stage("predict: features"):
        blocks = list(loaded.features_.transform_chunks(unlabelled.texts))
    with timer.stage("predict: rank"):
        found = [loaded.model_.predict(block, k=5) for block in blocks]
    with timer.stage("predict: write"):
        write_predictions(
            type(found[0]).concatenate(found), folder / "stages.jsonl", label_names=loaded.label_names_, overwrite=True
        )
    return timer.found


def measure(train: Path, test: Path, folder: Path, repeat: int) -> dict[str, Any]:
    """Run both commands and their stages in turns."""
    model, cache = folder / "model", folder / "kernels"
    commands = {
        "train": (*LONGTAIL, "train", train, "--model", "dismec", "--out", model, "--overwrite"),
        "predict": (*LONGTAIL, "predict", model, test, "--out", folder / "found.jsonl", "--overwrite"),
    }
    for command in commands.values():
        timed(command, cache)  # compiles
    whole: dict[str, list[dict[str, float]]] = {name: [] for name in commands}
    stages: list[dict[str, dict[str, float]]] = []
    for _ in range(repeat):
        for name, command in commands.items():
            whole[name].append(timed(command, cache))
        arguments = ("--stages", folder, "--train", train, "--test", test)
        stages.append(measured_apart(__spec__.name, *arguments, environment={"NUMBA_CACHE_DIR": str(cache)}))
    return {name: best(runs) for name, runs in whole.items()} | {
        name: best([run[name] for run in stages]) for name in stages[0]
    }


def table(rows: dict[str, dict[str, float]]) -> str:
    cells = [
        [name, f"{row['seconds']:.2f}", f"{row['cpu_s']:.2f}", f"{WANTED[name]:.0f}" if name in WANTED else ""]
        for name, row in rows.items()
    ]
    return markdown_table(["command, stage", "s", "CPU s", "wanted: at most s"], cells)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--train", type=Path, help="texts with labels")
    parser.add_argument("--test", type=Path, help="texts")
    parser.add_argument("--repeat", type=int, default=3)
    add_out(parser)
    parser.add_argument("--stages", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    train, test = arguments.train or data_root() / TRAIN, arguments.test or data_root() / TEST
    for file in (train, test):
        if not file.is_file():
            print(f"not run: {file.name} is absent; give --train FILE and --test FILE")
            return 2
    if arguments.stages:
        print(json.dumps(stages_of(train, test, arguments.stages)))
        return 0
    with tempfile.TemporaryDirectory() as folder:
        rows = measure(train, test, Path(folder), arguments.repeat)
    names = ["/".join(file.parts[-2:]) for file in (train, test)]
    content = {"train": names[0], "test": names[1], "repeat": arguments.repeat, "rows": rows, "table": table(rows)}
    print(content["table"])
    save("end-to-end", content, f"python -m {__spec__.name} --repeat {arguments.repeat}", folder=arguments.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
