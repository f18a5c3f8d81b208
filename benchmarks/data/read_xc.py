"""The XC reader beside scikit-learn's `load_svmlight_file(multilabel=True)`: seconds, and peak memory over the arrays.

    python -m benchmarks.data.read_xc [--data FILE] [--repeat 3]

Without --data the file is made of EURLEX57K (TF-IDF of the training texts). Each reader runs in its own processes, in
turn, so that neither sees the other's memory or warm caches.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.common import memory
from benchmarks.common.data import data_root
from benchmarks.common.process import measured_apart

EURLEX = "eurlex57k/train.jsonl.xz"
WARM_UP = "1 2 3\n0,2 1:0.5 0:1e-3\n"


def make_eurlex(path: Path) -> None:
    import numpy as np
    from sklearn.feature_extraction.text import TfidfVectorizer

    from longtail.data import Dataset, read_dataset, write_dataset

    texts = read_dataset(data_root() / EURLEX)
    pattern = r"(?u)\b[^\W_][\w\-]*\b"
    vectorizer = TfidfVectorizer(min_df=3, max_df=0.5, sublinear_tf=True, token_pattern=pattern, dtype=np.float32)
    write_dataset(Dataset(Y=texts.Y, X=vectorizer.fit_transform(texts.texts)), path)


def read_with_longtail(file: str) -> dict[str, float]:
    from longtail.data.xc import read_xc

    with tempfile.NamedTemporaryFile(suffix=".txt", mode="w") as small:  # kernels are compiled, or loaded from cache
        small.write(WARM_UP)
        small.flush()
        read_xc(small.name)
    return measured(lambda: read_xc(file), lambda data: [data.X, data.Y])


def read_with_sklearn(file: str) -> dict[str, float]:
    from sklearn.datasets import load_svmlight_file

    return measured(
        lambda: load_svmlight_file(file, multilabel=True, zero_based=True, dtype="float32"), lambda d: [d[0]]
    )


def measured(read, matrices) -> dict[str, float]:
    """Return seconds, CPU seconds, peak growth of the resident memory while reading, and the bytes of what was read."""
    before = memory.resident()
    start, cpu_start = time.perf_counter(), time.process_time()
    data = read()
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu_start
    growth = memory.peak() - before
    arrays = [part for m in matrices(data) for part in (m.data, m.indices, m.indptr)]
    return {"seconds": seconds, "cpu": cpu, "growth": growth, "arrays": sum(part.nbytes for part in arrays)}


READERS = {"longtail": read_with_longtail, "scikit-learn": read_with_sklearn}


def body_of(file: Path, folder: Path) -> Path:
    """Return a copy without the header line, which scikit-learn cannot read."""
    body = folder / "body.txt"
    with open(file, "rb") as source, open(body, "wb") as target:
        first = source.readline()
        if len(first.split()) != 3 or b":" in first:
            target.write(first)
        while block := source.read(1 << 20):
            target.write(block)
    return body


def compare(file: Path, folder: Path, repeat: int) -> None:
    body = body_of(file, folder)
    runs: dict[str, list[dict[str, float]]] = {reader: [] for reader in READERS}
    for _ in range(repeat):
        for reader in READERS:
            runs[reader].append(measured_apart(__spec__.name, "--data", body, "--only", reader))
    print(f"{body.stat().st_size / 1e6:.0f} MB without the header, best of {repeat} processes each")
    for reader, results in runs.items():
        best, cpu = (min(r[key] for r in results) for key in ("seconds", "cpu"))
        peak = max(r["growth"] for r in results)
        print(f"{reader:>13}: {best:6.2f} s   {cpu:6.2f} s of CPU   peak growth {peak / 1e6:6.0f} MB")
    ours, theirs = runs["longtail"], runs["scikit-learn"]
    speed, cpu_speed = (min(r[key] for r in theirs) / min(r[key] for r in ours) for key in ("seconds", "cpu"))
    memory = max(r["growth"] / r["arrays"] for r in ours)
    print(f"speed: {speed:.1f} x scikit-learn (at least 5 is wanted), {cpu_speed:.1f} x for the same CPU time")
    print(f"memory: peak growth {memory:.2f} x the {ours[0]['arrays'] / 1e6:.0f} MB of arrays (at most 3 is wanted)")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, help="an XC file, not compressed")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--only", choices=READERS, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.only:
        print(json.dumps(READERS[arguments.only](str(arguments.data))))
        return 0
    with tempfile.TemporaryDirectory() as folder:
        file = arguments.data or Path(folder) / "eurlex57k.txt"
        if arguments.data is None:
            if not (data_root() / EURLEX).is_file():
                print(f"not run: {EURLEX} is absent; give an XC file with --data FILE")
                return 2
            make_eurlex(file)
        elif not file.is_file():
            print(f"not run: {file} is absent")
            return 2
        compare(file, Path(folder), arguments.repeat)
    return 0


if __name__ == "__main__":
    sys.exit(main())
