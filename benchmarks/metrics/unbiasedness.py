"""Show that propensity-scored precision on observed labels estimates P@k on complete ones, and plain P@k does not.

    python -m benchmarks.metrics.unbiasedness [--image docs/images/unbiasedness.png]

One complete label matrix and one set of predictions are planted. Labels are then dropped 400 times, each label with its
known probability; the mean of each estimate over the repetitions is compared with P@k on the complete labels (Jain et
al. 2016, theorem 4.1). The numbers are printed and drawn.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib as mpl
import numpy as np
from scipy import sparse

from benchmarks.common import image
from longtail.core.predictions import Predictions
from longtail.metrics import Matches, score

mpl.use("Agg")
from matplotlib import pyplot as plt

KS = (1, 3, 5)
ESTIMATES = {"plain P@k": ("P", "tab:red"), "1/k Σ y/p": ("unbiased-P", "tab:blue")}
N_POINTS, N_LABELS, REPEATS = 2000, 300, 400


def plant() -> tuple[sparse.csr_matrix, Predictions]:
    """Make complete labels with a power-law tail, and predictions that know something about them."""
    rng = np.random.default_rng(0)
    rates = 0.8 * np.arange(1, N_LABELS + 1) ** -0.7
    relevant = rng.random((N_POINTS, N_LABELS)) < rates
    scores = relevant + rng.normal(0, 0.5, relevant.shape) + rates
    return sparse.csr_matrix(relevant.astype(np.float32)), Predictions.from_dense(scores, max(KS))


def propensities(complete: sparse.csr_matrix, rarest: float) -> np.ndarray:
    """Return propensities from `rarest` (the rarest label) to 0.95, linear in the logarithm of the count."""
    counts = np.log1p(np.asarray(complete.sum(axis=0)).ravel())
    return rarest + (0.95 - rarest) * (counts - counts.min()) / (counts.max() - counts.min())


def drop_repeatedly(complete: sparse.csr_matrix, predictions: Predictions, p: np.ndarray) -> dict[str, np.ndarray]:
    """Return the values of each estimate, (repetitions, ks)."""
    rng = np.random.default_rng(1)
    keep = p[complete.indices]
    values = {name: np.empty((REPEATS, len(KS))) for name in ESTIMATES}
    for repeat in range(REPEATS):
        observed = complete.copy()
        observed.data = (rng.random(keep.size) < keep).astype(np.float32)
        matches = Matches.of(predictions, observed, inverse_propensities=1 / p)
        for name, (metric, _) in ESTIMATES.items():
            values[name][repeat] = [score(matches, f"{metric}@{k}") for k in KS]
    return values


def report(values: dict[str, np.ndarray], truth: np.ndarray) -> None:
    for j, k in enumerate(KS):
        for name, table in values.items():
            mean, error = table[:, j].mean(), table[:, j].std(ddof=1) / np.sqrt(REPEATS)
            print(
                f"k={k}  complete P@{k} {truth[j]:.5f}   {name:10} mean {mean:.5f}   standard error {error:.6f}"
                f"   off by {abs(mean - truth[j]) / error:8.2f} standard errors"
            )


def draw(by_rarest: dict[float, dict[str, np.ndarray]], shown: float, truth: np.ndarray, out: Path) -> None:
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
    for name, (_, color) in ESTIMATES.items():
        left.hist(100 * by_rarest[shown][name][:, 1], bins=15, color=color, alpha=0.7, label=name)
    left.axvline(100 * truth[1], color="black", linestyle="--", label="complete labels")
    left.set(
        xlabel="P@3 estimated from the observed labels, %",
        ylabel=f"repetitions (of {REPEATS})",
        title=f"Labels dropped again and again (p = {shown} to 0.95)",
    )
    left.legend()
    rarest = sorted(by_rarest)
    for name, (_, color) in ESTIMATES.items():
        columns = [100 * by_rarest[r][name][:, 1] for r in rarest]
        errors = [3 * column.std(ddof=1) / np.sqrt(REPEATS) for column in columns]
        means = [column.mean() for column in columns]
        right.errorbar(rarest, means, errors, color=color, marker="o", capsize=4, label=name)
    right.axhline(100 * truth[1], color="black", linestyle="--", label="complete labels")
    right.set(
        xlabel="propensity of the rarest label",
        ylabel="mean estimate of P@3, %",
        title="Mean over the repetitions, ± 3 standard errors",
    )
    right.legend()
    out.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(out, dpi=110)
    plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--image", type=Path, default=image("unbiasedness.png"))
    out = parser.parse_args().image
    complete, predictions = plant()
    matches = Matches.of(predictions, complete)
    truth = np.array([score(matches, f"P@{k}") for k in KS])
    by_rarest = {
        r: drop_repeatedly(complete, predictions, propensities(complete, r)) for r in (0.1, 0.3, 0.5, 0.7, 0.9)
    }
    shown = 0.3
    report(by_rarest[shown], truth)
    draw(by_rarest, shown, truth, out)
    print(f"wrote {out.name}")


if __name__ == "__main__":
    main()
