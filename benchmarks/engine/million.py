"""DiSMEC trained from a mapped dataset under a limit on memory, then used: a million points and labels.

    python -m benchmarks.engine.million [--points 1000000] [--labels 1000000] [--complete] [--gigabytes 4] [--threads 2]

Made-up data as in benchmarks/trees/growth.py, written to a dataset directory: sparse rows of about 50 values, features
that grow with the square root of the labels. Without `--complete` most labels are missing, as the propensity model has
it, so that many have no training point; with it all labels are observed. `longtail train --workspace`,
`longtail predict` and `longtail evaluate` then run as commands of their own, in which private memory (RLIMIT_DATA) is
limited: memory that the system cannot drop. Peaks are those of the resident memory, private and mapped, looked at ten
times a second. Writes docs/lab/benchmarks/million-POINTS-LABELS.json.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common import add_out, markdown_table, save
from longtail.core.store import read_manifest, size_in_bytes
from longtail.data import make_longtail, read_dataset, write_dataset
from longtail.linear.rare import LOSS, rare_labels

TEST_POINTS = 20_000
GB = 2**30


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--points", type=int, default=1_000_000)
    parser.add_argument("--labels", type=int, default=1_000_000)
    parser.add_argument("--complete", action="store_true", help="no label is missing")
    parser.add_argument("--gigabytes", type=float, default=4.0, help="limit of private memory")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--folder", type=Path, help="where data and model go; default: a temporary folder")
    parser.add_argument("--resume", type=Path, help="go on with data and finished parts that a killed run left")
    parser.add_argument("--make", type=Path, help=argparse.SUPPRESS)
    add_out(parser)
    options = parser.parse_args()
    if options.make:
        print(json.dumps(make(options.make, options.points, options.labels, complete=options.complete)))
        return 0
    if options.resume:
        return measure(options.resume, options)
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        return measure(Path(folder), options)


def measure(folder: Path, options: argparse.Namespace) -> int:
    sizes = [f"--points={options.points}", f"--labels={options.labels}", *["--complete"] * options.complete]
    data = about(folder / "train") if options.resume else made_apart(folder, sizes)
    print(data, flush=True)
    (folder / "work").mkdir(exist_ok=True)
    limit = int(options.gigabytes * GB)
    train = ["train", folder / "train", "--model", "dismec", "--out", folder / "model", "--workspace", folder / "work"]
    train += ["--calibrate", "no", "--threads", options.threads, *["--resume"] * bool(options.resume)]
    trained = limited(train, limit)
    print(trained, flush=True)
    predicted = limited(["predict", folder / "model", folder / "test", "--out", folder / "predicted.npz"], limit)
    print(predicted, flush=True)
    evaluated = limited(["evaluate", folder / "model", folder / "test", "--json"], limit)
    print(evaluated, flush=True)
    figures = json.loads(evaluated.pop("output"))
    manifest = read_manifest(folder / "model", "model")
    model = {
        "mb": size_in_bytes(folder / "model") / 1e6, "files": 1 + len(manifest.get("more_arrays", ())),
        "shards": manifest["state"]["learned"].get("shards", 1),
    }  # fmt: skip
    content = {
        "gigabytes": options.gigabytes, "threads": options.threads, "data": data, "train": trained,
        "predict": predicted, "evaluate": evaluated, "model": model, "figures": figures,
        "resumed": bool(options.resume),
    }  # fmt: skip
    name = f"million-{options.points}-{options.labels}" + "-complete" * options.complete
    command = f"python -m benchmarks.engine.million {' '.join(sizes)} --gigabytes {options.gigabytes:g}"
    save(name, content | {"table": table(content)}, f"{command} --threads {options.threads}", folder=options.out)
    return 0


def made_apart(folder: Path, sizes: list[str]) -> dict[str, Any]:
    """Make the data in a process without a limit."""
    command = [sys.executable, "-m", __spec__.name, "--make", str(folder), *sizes]
    made: dict[str, Any] = json.loads(
        subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout.splitlines()[-1]
    )
    return made


def make(folder: Path, n_points: int, n_labels: int, *, complete: bool) -> dict[str, Any]:
    """Write the dataset directories `train` and `test`, and return what is in them."""
    missing: dict[str, Any] = {"propensity": None} if complete else {}
    n_features = int(300 * np.sqrt(n_labels))
    made = make_longtail(n_points, n_features, n_labels, n_test_points=TEST_POINTS, **missing)
    for name in ("train", "test"):
        write_dataset(getattr(made, name), folder / name)
    return about(folder / "train")


def about(folder: Path) -> dict[str, Any]:
    """Return what is in a dataset directory."""
    data = read_dataset(folder)
    assert data.X is not None
    return {
        "points": data.n_points, "features": data.n_features, "labels": data.n_labels, "nonzeros": int(data.X.nnz),
        "positives": int(data.Y.nnz), "labels_with_points": int((data.label_counts > 0).sum()),
        "rare_labels": int(rare_labels(data.Y, LOSS).sum()), "mb": size_in_bytes(folder) / 1e6,
    }  # fmt: skip


def limited(arguments: list[Any], limit: int) -> dict[str, Any]:
    """Run a command of longtail with so much private memory; return its seconds and peaks, in MB, and its output."""

    def restrict() -> None:
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))

    command = [str(Path(sys.executable).with_name("longtail")), *map(str, arguments)]
    started, cpu_before = time.perf_counter(), _cpu_of_children()
    peaks = {"VmHWM": 0, "RssAnon": 0, "RssFile": 0}
    with (
        tempfile.TemporaryFile("w+") as printed,
        subprocess.Popen(command, stdout=printed, text=True, preexec_fn=restrict) as process,
    ):
        while process.poll() is None:
            for line in _status(process.pid):
                entry, _, value = line.partition(":")
                if entry in peaks:
                    peaks[entry] = max(peaks[entry], int(value.split()[0]) * 1024)
            time.sleep(0.1)
        seconds = time.perf_counter() - started
        printed.seek(0)
        output = printed.read()
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {process.returncode}")
    return {
        "s": seconds, "cpu_s": _cpu_of_children() - cpu_before, "peak_mb": peaks["VmHWM"] / 1e6,
        "peak_private_mb": peaks["RssAnon"] / 1e6, "peak_mapped_mb": peaks["RssFile"] / 1e6, "output": output,
    }  # fmt: skip


def _cpu_of_children() -> float:
    """Return the CPU seconds of the processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _status(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:  # it has just ended
        return []


def table(content: dict[str, Any]) -> str:
    data, model = content["data"], content["model"]
    header = ["", "s", "CPU s", "peak private MB", "peak resident MB, with mapped files"]
    rows = [
        [f"longtail {step}", *(f"{content[step][key]:,.0f}" for key in ("s", "cpu_s", "peak_private_mb", "peak_mb"))]
        for step in ("train", "predict", "evaluate")
    ]
    said = (
        f"{data['points']:,} points, {data['labels']:,} labels ({data['labels_with_points']:,} with points, "
        f"{data['rare_labels']:,} of these on working sets), {data['features']:,} features, {data['nonzeros']:,} "
        f"values; dataset {data['mb']:,.0f} MB, model {model['mb']:,.0f} MB in {model['shards']} shards and "
        f"{model['files']} array file{'s' * (model['files'] != 1)}."
    )
    return f"{said}\n\n{markdown_table(header, rows)}"


if __name__ == "__main__":
    sys.exit(main())
