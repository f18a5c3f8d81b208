"""python -m scripts.load_cost: how long the checks of a large model take, beside the rest of its loading.

Models with random weights (300 MB by default) are saved and loaded, alternately with and without the checks of their
numbers; the least of several user and system CPU times is shown, which other work on the machine hardly changes.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

import longtail
from longtail.linear.shards import Shards
from longtail.linear.weights import Weights
from longtail.trees.instance.forest import Forest
from longtail.trees.label.rows import packed_rows, starts_of
from longtail.trees.label.weights import TreeModel

N_FEATURES, N_LABELS = 100_000, 50_000


def _fitted(model: Any) -> Any:
    model.n_labels_, model.n_points_, model.n_features_in_ = N_LABELS, 1, N_FEATURES
    model.label_counts_, model.label_names_, model.fingerprint_ = np.ones(N_LABELS, np.int64), None, ""
    return model


def _columns(rng: np.random.Generator, rows: int, per_row: int, end: int) -> sparse.csr_matrix:
    """Return a matrix of random columns, about `per_row` in each row, and random values."""
    columns = np.sort(rng.integers(0, end, (rows, per_row), dtype=np.int32), axis=1).ravel()
    starts = np.arange(rows + 1, dtype=np.int64) * per_row
    matrix = sparse.csr_matrix((rng.random(columns.size, np.float32) + np.float32(0.1), columns, starts), (rows, end))
    matrix.sum_duplicates()
    return matrix


def random_dismec(rng: np.random.Generator, n_bytes: int) -> longtail.DiSMEC:
    """Return classifiers whose weights take about this many bytes."""
    model = _fitted(longtail.DiSMEC())
    model.gaps_ = np.zeros(N_LABELS)
    every, intercepts = np.arange(N_LABELS), np.zeros(N_LABELS, np.float32)
    weights = _columns(rng, N_LABELS, n_bytes // 4 // N_LABELS, N_FEATURES)  # 2 bytes of a weight, 2 of its classifier
    parts = [Weights.of_rows([weights], [every], intercepts, every, N_FEATURES, model.weight_dtype)]
    model._shards = Shards(parts)
    return model


def random_bonsai(rng: np.random.Generator, n_bytes: int) -> longtail.Bonsai:
    """Return a tree of two levels, with 100 labels per leaf and weights of a fifth of them per feature."""
    below, n_leaves = 100, N_LABELS // 100
    per_leaf = n_bytes // (20 * 3 + 8) // n_leaves  # features; 3 bytes per weight, 8 for a feature and its offset
    model = _fitted(longtail.Bonsai(n_trees=1))
    nodes, sizes = [], [n_leaves] + [below] * n_leaves
    features = [np.arange(0, dtype=np.int32)]
    for node, n_children in enumerate(sizes):
        children = _columns(rng, per_leaf if node else 0, 20, n_children)
        values = rng.integers(-(2**15), 2**15, children.nnz, dtype=np.int16)
        nodes.append(packed_rows(children.indptr, children.indices, values, n_children))
        features += [np.sort(rng.choice(N_FEATURES, per_leaf, replace=False)).astype(np.int32)] if node else []
    child = np.concatenate([-2 - np.arange(n_leaves), np.arange(N_LABELS)]).astype(np.int32)
    ones = np.ones(child.size, np.float32)
    rows = starts_of([part.size for part in features])
    model.trees_ = [TreeModel.joined(starts_of(sizes), child, ones, ones, rows, np.concatenate(features), nodes)]
    model.n_trained_ = N_LABELS
    return model


def random_fastxml(rng: np.random.Generator, n_bytes: int) -> longtail.FastXML:
    """Return a tree with as many bytes in hyperplanes as in the labels of its leaves."""
    n_nodes = 2**15 - 1
    n_inner = n_nodes // 2
    children = np.full((n_nodes, 2), -1, np.int32)
    children[:n_inner] = np.arange(1, n_nodes).reshape(-1, 2)
    parts = [(n_inner, N_FEATURES), (n_nodes - n_inner, N_LABELS)]
    planes, leaves = (_columns(rng, rows, n_bytes // 2 // 8 // rows, end) for rows, end in parts)
    planes.resize(n_nodes, N_FEATURES)
    leaves = sparse.vstack([sparse.csr_matrix((n_inner, N_LABELS), dtype=np.float32), leaves], format="csr")
    model = _fitted(longtail.FastXML(n_trees=1))
    model.forest_ = Forest(np.zeros(1, np.int32), children, np.zeros(n_nodes, np.float32), planes, leaves)
    return model


MODELS: dict[str, Callable[[np.random.Generator, int], Any]] = {
    "dismec": random_dismec, "bonsai": random_bonsai, "fastxml": random_fastxml,
}  # fmt: skip


def measure(path: Path, repeats: int) -> dict[str, float]:
    """Return the least CPU seconds of loading a model in two ways, and of its checks."""
    least = {"load, verify=True": np.inf, "load, verify=False": np.inf, "checks of numbers alone": np.inf}
    for _ in range(repeats):
        for name in least:
            loaded = longtail.load_model(path, verify=False) if name.startswith("checks") else None
            begin = time.process_time()
            if loaded is not None:
                loaded.check_fitted()
            else:
                longtail.load_model(path, verify=name.endswith("True"))
            least[name] = min(least[name], time.process_time() - begin)
    return least


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=300)
    parser.add_argument("--repeats", type=int, default=7)
    options = parser.parse_args()
    for kind, build in MODELS.items():
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model"
            build(np.random.default_rng(0), options.megabytes * 1_000_000).save(path)
            size = sum(file.stat().st_size for file in path.iterdir())
            least = measure(path, options.repeats)
        print(f"{kind}, {size / 1e6:.0f} MB")
        for name, seconds in least.items():
            print(f"  {name:25} {1000 * seconds:8.1f} ms")
        print(f"  {'checks / load':25} {100 * least['checks of numbers alone'] / least['load, verify=True']:8.1f} %")


if __name__ == "__main__":
    main()
