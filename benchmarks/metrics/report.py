"""What a report takes (seconds, memory, size), and how long one explanation takes: python -m benchmarks.metrics.report.

MODEL and OTHER are models of EURLEX57K, e.g. of
`longtail train eurlex57k/train.jsonl.xz --model dismec --vocabulary eurlex57k/labels.json.xz --out MODEL`.
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

from benchmarks.common import ROOT, add_out, save
from benchmarks.common.data import add_data_root, data_root
from longtail.core.model import load_model
from longtail.data import read_dataset

EXPLAINED = 200  # texts


def report(model: Path, other: Path, data: Path) -> dict[str, Any]:
    """Write a report in another process and return what it took."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "report.html"
        command = [sys.executable, "-m", "longtail.app.cli", "report", model, data / "test.jsonl.xz"]
        command += ["--train", data / "train.jsonl.xz", "--against", other, "--out", out]
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([str(part) for part in command], check=True, cwd=ROOT)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        about = json.loads(out.with_suffix(".json").read_text(encoding="utf-8"))["about"]
        return {
            "seconds": float(about["seconds of this report"]),
            "cpu_seconds": round(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, 1),
            "peak_mb": float(about["peak memory of this report"].removesuffix(" MB").replace(",", "")),
            "page_mb": round(out.stat().st_size / 1e6, 2),
        }


def explanations(model: Path, data: Path) -> dict[str, float]:
    """Return milliseconds of CPU per explanation of the first label of a text."""
    loaded = load_model(model)
    texts = list(read_dataset(data / "test.jsonl.xz").texts[:EXPLAINED])
    labels = loaded.predict(texts, k=1).labels[:, 0].tolist()
    loaded.explain(texts[0], labels[0])
    spent = []
    for text, label in zip(texts, labels, strict=True):
        began = time.process_time()
        loaded.explain(text, label)
        spent.append(1e3 * (time.process_time() - began))
    return {"median_ms": round(float(np.median(spent)), 2), "p95_ms": round(float(np.percentile(spent, 95)), 2)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path, metavar="MODEL")
    parser.add_argument("other", type=Path, metavar="OTHER")
    add_data_root(parser)
    add_out(parser)
    given = parser.parse_args()
    data = data_root(given.data_root).resolve() / "eurlex57k"
    model, other = given.model.resolve(), given.other.resolve()
    found = {"dataset": "eurlex57k", "report": report(model, other, data), "explain": explanations(model, data)}
    save("report", found, "python -m benchmarks.metrics.report MODEL OTHER", folder=given.out)


if __name__ == "__main__":
    main()
