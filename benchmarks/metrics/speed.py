"""How fast the metrics are: P, nDCG, R, PSP and PSnDCG at 1, 3, 5 of 100,000 points x 10 predictions, beside napkinxc.

    python -m benchmarks.metrics.speed [--points N]

Both compute the same set from the same predictions in one run, and the largest difference of the results is recorded.
napkinxc gets the form it is fastest on, lists of label ids, made beforehand; longtail gets CSR and `Predictions`.
Writes docs/lab/benchmarks/metrics-speed.json.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from napkinxc import metrics as napkinxc
from scipy import sparse

from benchmarks.common import add_out, markdown_table, save
from longtail.core.predictions import Predictions
from longtail.metrics import Matches, score

KS = (1, 3, 5)
NAMES = ("P", "nDCG", "R", "PSP", "PSnDCG")


def make(n_points: int, n_labels: int = 5000, k: int = 10) -> tuple[Predictions, sparse.csr_matrix, np.ndarray]:
    """Make five labels per point from a power law; predictions that hold about half of them."""
    rng = np.random.default_rng(0)
    popularity = np.arange(1, n_labels + 1) ** -0.8
    drawn = rng.choice(n_labels, size=(n_points, 5), p=popularity / popularity.sum())
    true = sparse.csr_matrix((np.ones(drawn.size, np.float32), drawn.ravel(), np.arange(0, drawn.size + 1, 5)))
    true.resize(n_points, n_labels)
    true.sum_duplicates()
    true.data[:] = 1.0
    guessed = sparse.random_array(
        (n_points, n_labels), density=2 * k / n_labels, rng=rng, format="csr", dtype=np.float32
    )
    scores = sparse.csr_matrix(guessed + true.multiply(rng.random((n_points, 1)).astype(np.float32)))
    return Predictions.from_csr(scores, k), true, 1.0 + 20.0 * popularity[::-1]


def ours(predictions: Predictions, Y: sparse.csr_matrix, inverse: np.ndarray) -> np.ndarray:
    matches = Matches.of(predictions, Y, inverse_propensities=inverse)
    return np.array([[score(matches, f"{name}@{k}") for k in KS] for name in NAMES])


def theirs(truth: list[list[int]], predicted: list[list[int]], inverse: np.ndarray) -> np.ndarray:
    tables = [
        napkinxc.precision_at_k(truth, predicted, k=5),
        napkinxc.ndcg_at_k(truth, predicted, k=5),
        napkinxc.recall_at_k(truth, predicted, k=5),
        napkinxc.psprecision_at_k(truth, predicted, inverse, k=5),
        napkinxc.psndcg_at_k(truth, predicted, inverse, k=5),
    ]
    return np.array([[table[k - 1] for k in KS] for table in tables])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--points", type=int, default=100_000)
    add_out(parser)
    options = parser.parse_args()
    predictions, Y, inverse = make(options.points)
    truth = [row.tolist() for row in np.split(Y.indices, Y.indptr[1:-1])]
    predicted = predictions.labels.tolist()

    start = time.perf_counter()
    first = ours(predictions, Y, inverse)
    compiling = time.perf_counter() - start  # or reading the kernels from Numba's cache
    times = []
    for _ in range(5):
        start = time.perf_counter()
        ours(predictions, Y, inverse)
        times.append(time.perf_counter() - start)
    start = time.perf_counter()
    expected = theirs(truth, predicted, inverse)
    slow = time.perf_counter() - start

    median = float(np.median(times))
    cells = [
        ["longtail, median of 5", f"{median:.3f}", "1"],
        ["longtail, first call", f"{compiling:.3f}", f"{compiling / median:.1f}"],
        ["napkinxc", f"{slow:.3f}", f"{slow / median:.1f}"],
    ]
    content = {
        "points": len(predictions), "k": predictions.k, "labels": Y.shape[1], "longtail_s": median,
        "first_call_s": compiling, "napkinxc_s": slow, "times_faster": slow / median,
        "largest_difference": float(np.abs(first - expected).max()),
        "table": markdown_table(["", "s", "longtail = 1"], cells),
    }  # fmt: skip
    print(f"{content['points']:,} points x {predictions.k} predictions, {Y.shape[1]:,} labels\n{content['table']}")
    print(f"largest difference {content['largest_difference']:.1e}")
    save("metrics-speed", content, f"python -m benchmarks.metrics.speed --points {options.points}", folder=options.out)


if __name__ == "__main__":
    main()
