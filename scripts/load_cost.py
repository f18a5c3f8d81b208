"""python -m scripts.load_cost: how long the checks of a large model take, beside the rest of its loading.

A DiSMEC model with random weights (300 MB by default) is saved and loaded, alternately with and without the checks of
its numbers; the least of several user and system CPU times is shown, which other work on the machine hardly changes.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
from scipy import sparse

import longtail
from longtail.linear.weights import Weights


def random_model(megabytes: int) -> longtail.DiSMEC:
    """Return a model whose weights take about this many megabytes."""
    n_features, n_labels = 100_000, 50_000
    per_label = megabytes * 1_000_000 // 4 // n_labels  # 2 bytes of a weight and 2 of its classifier
    rng = np.random.default_rng(0)
    features = np.sort(rng.integers(0, n_features, (n_labels, per_label), dtype=np.int32), axis=1).ravel()
    starts = np.arange(n_labels + 1, dtype=np.int64) * per_label
    weights = sparse.csr_matrix((rng.random(features.size, np.float32), features, starts), (n_labels, n_features))
    weights.sum_duplicates()
    model = longtail.DiSMEC()
    model.n_labels_, model.n_points_, model.n_features_in_ = n_labels, 1, n_features
    model.label_counts_, model.label_names_, model.fingerprint_ = np.ones(n_labels, np.int64), None, ""
    model.gaps_ = np.zeros(n_labels)
    every, intercepts = np.arange(n_labels), np.zeros(n_labels, np.float32)
    model._keep(Weights.of_rows([weights], [every], intercepts, every, n_features, model.weight_dtype))
    return model


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=300)
    parser.add_argument("--repeats", type=int, default=7)
    options = parser.parse_args()
    least = {"load, verify=True": np.inf, "load, verify=False": np.inf, "checks of numbers alone": np.inf}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model"
        random_model(options.megabytes).save(path)
        for _ in range(options.repeats):
            for name in least:
                loaded = longtail.load_model(path, verify=False) if name.startswith("checks") else None
                begin = time.process_time()
                if loaded is not None:
                    loaded.check_fitted()
                else:
                    longtail.load_model(path, verify=name.endswith("True"))
                least[name] = min(least[name], time.process_time() - begin)
    for name, seconds in least.items():
        print(f"{name:25} {1000 * seconds:8.1f} ms")
    print(f"{'checks / load':25} {100 * least['checks of numbers alone'] / least['load, verify=True']:8.1f} %")


if __name__ == "__main__":
    main()
