"""Search among label vectors: milliseconds per query on one core, alone and in a batch, and the recall of the 5 best.

    python -m benchmarks.neural.mips [--width 1024] [--labels 25000 100000 1000000] [--vectors FOLDER]

The vectors come from a GLaS model that is trained first, for one epoch, on the recipe's data. It has fewer labels than
are asked for, so the embeddings of training points stand in as further labels (an item that is described by a text and
searched for by another: the same space, the same kind of vector), and beyond those, the same with a little noise
(an eighth of their length). Queries are the embeddings of test points. All vectors have unit length. --vectors keeps
them, so that measuring, which wants an idle machine, need not train; a million of width 1024 take 10 GB of memory.
Writes docs/lab/benchmarks/mips-WIDTH.json.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common import add_out, markdown_table, save
from benchmarks.common.data import add_data_root, features_of, recipe_named
from longtail import GLaS
from longtail.neural.mips import LabelSearch, recall_of
from longtail.neural.placement import place

N_QUERIES = 2000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--recipe", default="yso-finna-en/glas")
    add_data_root(parser)
    parser.add_argument("--width", type=int, default=1024, help="dimension of the vectors")
    parser.add_argument("--labels", type=int, nargs="+", default=[25_000, 100_000, 1_000_000])
    parser.add_argument("--recall", type=float, default=0.995, help="share to be found on the queries for tuning")
    parser.add_argument("--vectors", type=Path, help="folder to keep vectors in, or to take them from")
    add_out(parser)
    options = parser.parse_args()
    vectors, queries = kept_or_trained(options)
    rows = []
    print(f"d = {options.width}; milliseconds per query, one at a time, one thread")
    print(f"{'labels':>10} {'exact':>8} {'codes':>8} {'recall@5':>9} {'candidates':>11} {'build s':>8}")
    for n_labels in options.labels:
        row = measure(enlarged(vectors, n_labels), queries, options.recall)
        rows.append(row)
        print(
            f"{n_labels:10,} {row['exact ms']:8.2f} {row['codes ms']:8.3f} {row['recall@5']:9.4f}"
            f" {row['candidates']:11} {row['build s']:8.1f}",
            flush=True,
        )
    content = {"width": options.width, "table": table(rows), "rows": rows}
    command = f"python -m benchmarks.neural.mips --width {options.width}"
    save(f"mips-{options.width}", content, command, folder=options.out)


def table(rows: list[dict[str, Any]]) -> str:
    cells = [[f"{v:,}" if isinstance(v, int) else f"{v:.4g}" for v in row.values()] for row in rows]
    return markdown_table(list(rows[0]), cells, left=())


def kept_or_trained(options: argparse.Namespace) -> tuple[np.ndarray, np.ndarray]:
    folder, names = options.vectors, ("labels", "queries")
    files = [folder / f"{name}-{options.width}.npy" for name in names] if folder else []
    if files and all(file.exists() for file in files):
        return np.load(files[0], mmap_mode="r"), np.load(files[1])
    found = trained_vectors(options.recipe, options.data_root, options.width)
    if files:
        folder.mkdir(parents=True, exist_ok=True)
        for file, array in zip(files, found, strict=True):
            np.save(file, array)
    return found


def trained_vectors(recipe: str, data_root: Path | None, width: int) -> tuple[np.ndarray, np.ndarray]:
    """Return labels followed by training points, and test points, as unit vectors of one trained space."""
    train, test = features_of(recipe_named(recipe), data_root)
    model = GLaS(width=width, epochs=1, negatives=1000, search="exact", device="cpu")
    started = time.perf_counter()
    model.fit(train.X, train.Y)
    print(f"trained in {time.perf_counter() - started:.0f} s")
    placement = place("cpu")
    # Private in the library: vectors of points and labels leave a model only by way of its search.
    points = model._embedded(train.X, placement)
    queries = model._embedded(test.X[: 2 * N_QUERIES], placement)
    return np.concatenate([model._label_vectors(), points]), queries


def enlarged(vectors: np.ndarray, n_labels: int) -> np.ndarray:
    """Return the first n_labels vectors; where there are fewer, noisy copies follow."""
    rng = np.random.default_rng(0)
    labels = np.empty((n_labels, vectors.shape[1]), np.float32)
    labels[: len(vectors)] = vectors[:n_labels]
    for start in range(len(vectors), n_labels, 10_000):
        copies = labels[start : start + 10_000]
        copies[:] = vectors[np.arange(start, start + len(copies)) % len(vectors)]
        copies += rng.standard_normal(copies.shape, dtype=np.float32) / (8 * np.sqrt(vectors.shape[1]))
        copies /= np.linalg.norm(copies, axis=1, keepdims=True)
    return labels


def measure(labels: np.ndarray, queries: np.ndarray, recall: float) -> dict[str, Any]:
    """Let half of the queries choose how many candidates are compared exactly; the other half is measured."""
    tuning, testing = queries[::2], queries[1::2]
    started = time.perf_counter()
    search = LabelSearch.build(labels, tuning, kind="codes", recall=recall)
    build = time.perf_counter() - started
    exact = LabelSearch(labels)
    truth, found = exact.top(testing, 5), search.top(testing, 5)
    assert search.codes is not None
    return {
        "labels": len(labels),
        "exact ms": milliseconds(exact, testing[:30]),
        "codes ms": milliseconds(search, testing),
        "exact ms in a batch": milliseconds_in_a_batch(exact, testing),
        "codes ms in a batch": milliseconds_in_a_batch(search, testing),
        "recall@5": recall_of(found, truth),
        "candidates": search.codes.candidates,
        "bytes a label": len(search.codes.centroids) / 2,
        "build s": build,
    }


def milliseconds(search: LabelSearch, queries: np.ndarray) -> float:
    """Return the mean of one query at a time, on one thread."""
    search.top(queries[:1], 5, n_jobs=1)
    started = time.perf_counter()
    for i in range(len(queries)):
        search.top(queries[i : i + 1], 5, n_jobs=1)
    return 1000 * (time.perf_counter() - started) / len(queries)


def milliseconds_in_a_batch(search: LabelSearch, queries: np.ndarray) -> float:
    """Return the time per query of all queries at once, on one thread."""
    started = time.perf_counter()
    search.top(queries, 5, n_jobs=1)
    return 1000 * (time.perf_counter() - started) / len(queries)


if __name__ == "__main__":
    main()
