"""What a user waits for: `import longtail`, `longtail --help`, one prediction, and a first training beside later ones.

    python -m benchmarks.commands.start [--data FILE] [--repeat 5]

Every command runs in processes of its own. "Empty cache" is a new folder for Numba's compiled kernels, as in a new
environment. Seconds are the best of all runs; CPU seconds (user and system, all threads) hardly depend on what else the
machine does. DATA is the dev split of EURLEX57K by default. Writes docs/lab/benchmarks/start.json.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.common import add_out, markdown_table, save
from benchmarks.common.data import data_root

DATA = "eurlex57k/dev.jsonl.xz"
TEXT = "Commission Regulation on imports of fishery products from third countries"
PYTHON = (sys.executable,)
LONGTAIL = (*PYTHON, "-c", "from longtail.app.cli import main; main()", "--quiet")
# What is asked for: most seconds of a command, or of the first training beyond a later one.
WANTED = {"predict": 1.0, "predict, empty cache": 3.0, "first training, beyond later ones": 12.0}


def timed(command: tuple[object, ...], cache: Path) -> dict[str, float]:
    """Return seconds and CPU seconds of a command, which must succeed."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(
        [str(part) for part in command], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        env=os.environ | {"NUMBA_CACHE_DIR": str(cache)},
    )  # fmt: skip
    seconds, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    return {
        "seconds": seconds,
        "cpu_s": after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime,
    }


def best(runs: list[dict[str, float]]) -> dict[str, float]:
    """Return the least of each figure."""
    return {name: min(run[name] for run in runs) for name in runs[0]}


def measure(data: Path, folder: Path, repeat: int, run: Callable[..., dict[str, float]] = timed) -> dict[str, Any]:
    """Run every command `repeat` times, in turns."""
    model, warm = folder / "model", folder / "kernels"
    train = (*LONGTAIL, "train", data, "--model", "dismec", "--out", model, "--overwrite")
    predict = (*LONGTAIL, "predict", model, "--text", TEXT)
    runs: dict[str, list[dict[str, float]]] = {}

    def add(name: str, command: tuple[object, ...], cache: Path) -> None:
        runs.setdefault(name, []).append(run(command, cache))

    for turn in range(repeat):
        cold = folder / f"new-{turn}"
        if turn < 2:  # the longest of all, and steady
            add("first training", train, cold)
        add("later training", train, warm if turn else cold)
        add("import longtail", (*PYTHON, "-c", "import longtail"), warm)
        add("longtail --help", (*LONGTAIL, "--help"), warm)
        add("predict", predict, warm)
        add("predict, empty cache", predict, folder / f"empty-{turn}")
        if not turn:
            run(train, warm)  # fills it
    rows = {name: best(found) for name, found in runs.items()}
    rows["first training, beyond later ones"] = {
        name: rows["first training"][name] - rows["later training"][name] for name in ("seconds", "cpu_s")
    }
    return rows


def table(rows: dict[str, dict[str, float]]) -> str:
    cells = [
        [name, f"{row['seconds']:.2f}", f"{row['cpu_s']:.2f}", f"{WANTED[name]:.0f}" if name in WANTED else ""]
        for name, row in rows.items()
    ]
    return markdown_table(["command", "s", "CPU s", "wanted: at most s"], cells)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, help="texts with labels")
    parser.add_argument("--repeat", type=int, default=5)
    add_out(parser)
    arguments = parser.parse_args()
    data = arguments.data or data_root() / DATA
    if not data.is_file():
        print(f"not run: {data.name} is absent; give texts with labels by --data FILE")
        return 2
    with tempfile.TemporaryDirectory() as folder:
        rows = measure(data, Path(folder), arguments.repeat)
    content = {"data": "/".join(data.parts[-2:]), "repeat": arguments.repeat, "rows": rows, "table": table(rows)}
    print(content["table"])
    given = f" --data {arguments.data.name}" if arguments.data else ""
    save("start", content, f"python -m {__spec__.name}{given} --repeat {arguments.repeat}", folder=arguments.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
