"""The XC reader beside scikit-learn's `load_svmlight_file(multilabel=True)`: seconds, and peak memory over the arrays.

    python -m benchmarks.data.read_xc [--data FILE] [--repeat 3]

Without --data the file is made of EURLEX57K (TF-IDF of the training texts). Each reader runs in its own processes, in
turn, so that neither sees the other's memory or warm caches. Writes docs/lab/benchmarks/read-xc.json.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.common import add_out, markdown_table, save
from benchmarks.common.data import data_root
from benchmarks.common.process import measured_apart
from longtail.bench import memory

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


def compare(file: Path, folder: Path, repeat: int) -> dict[str, Any]:
    """Measure both readers in turns; the best times and the largest memory of each count."""
    body = body_of(file, folder)
    runs: dict[str, list[dict[str, float]]] = {reader: [] for reader in READERS}
    for _ in range(repeat):
        for reader in READERS:
            runs[reader].append(measured_apart(__spec__.name, "--data", body, "--only", reader))
    rows = {
        reader: {
            "seconds": min(r["seconds"] for r in results), "cpu_s": min(r["cpu"] for r in results),
            "growth_mb": max(r["growth"] for r in results) / 1e6, "arrays_mb": results[0]["arrays"] / 1e6,
        }
        for reader, results in runs.items()
    }  # fmt: skip
    ours, theirs = rows["longtail"], rows["scikit-learn"]
    content = {
        "file_mb": body.stat().st_size / 1e6, "repeat": repeat, "rows": rows,
        "times_faster": theirs["seconds"] / ours["seconds"], "times_faster_cpu": theirs["cpu_s"] / ours["cpu_s"],
        "growth_over_arrays": ours["growth_mb"] / ours["arrays_mb"], "table": table(rows),
    }  # fmt: skip
    print(f"{content['file_mb']:.0f} MB without the header, best of {repeat} processes each\n{content['table']}")
    print(f"speed: {content['times_faster']:.1f} x scikit-learn (at least 5 is wanted), ", end="")
    print(f"{content['times_faster_cpu']:.1f} x for the same CPU time")
    print(f"memory: peak growth {content['growth_over_arrays']:.2f} x the arrays (at most 3 is wanted)")
    return content


def table(rows: dict[str, dict[str, float]]) -> str:
    cells = [
        [reader, f"{row['seconds']:.2f}", f"{row['cpu_s']:.2f}", f"{row['growth_mb']:.0f}", f"{row['arrays_mb']:.0f}"]
        for reader, row in rows.items()
    ]
    return markdown_table(["reader", "s", "CPU s", "peak growth MB", "arrays MB"], cells)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, help="an XC file, not compressed")
    parser.add_argument("--repeat", type=int, default=3)
    add_out(parser)
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
        found = compare(file, Path(folder), arguments.repeat)
    given = f" --data {arguments.data.name}" if arguments.data else ""
    command = f"python -m benchmarks.data.read_xc{given} --repeat {arguments.repeat}"
    save("read-xc", found, command, folder=arguments.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
