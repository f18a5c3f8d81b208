"""How fast the metrics are: P, nDCG, R, PSP and PSnDCG at 1, 3, 5 of 100,000 points x 10 predictions, beside napkinxc.

    python -m benchmarks.metrics.speed [--points N]

Both compute the same set from the same predictions in one run, and the largest difference of the results is printed.
napkinxc gets the form it is fastest on, lists of label ids, made beforehand; longtail gets CSR and `Predictions`.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from napkinxc import metrics as napkinxc
from scipy import sparse

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
    parser = argparse.ArgumentParser()
    parser.add_argument("--points", type=int, default=100_000)
    predictions, Y, inverse = make(parser.parse_args().points)
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

    print(f"{len(predictions):,} points x {predictions.k} predictions, {Y.shape[1]:,} labels")
    print(f"longtail  {np.median(times):8.3f} s (median of 5; the first call {compiling:.3f} s)")
    print(f"napkinxc  {slow:8.3f} s")
    print(f"ratio     {slow / np.median(times):8.1f} (first call: {slow / compiling:.1f})")
    print(f"largest difference {np.abs(first - expected).max():.1e}")


if __name__ == "__main__":
    main()
