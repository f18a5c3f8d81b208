"""Show that propensity-scored precision on observed labels estimates P@k on complete ones, and plain P@k does not.

    python -m benchmarks.metrics.unbiasedness [--repeats 400]

One complete label matrix and one set of predictions are planted. Labels are then dropped 400 times, each label with its
known probability; the mean of each estimate over the repetitions is compared with P@k on the complete labels (Jain et
al. 2016, theorem 4.1). Writes docs/lab/benchmarks/unbiasedness.json and docs/images/unbiasedness.png.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from scipy import sparse

from benchmarks.common import add_out, image, markdown_table, save
from longtail.core.predictions import Predictions
from longtail.metrics import Matches, score

mpl.use("Agg")
from matplotlib import pyplot as plt

KS = (1, 3, 5)
ESTIMATES = {"plain P@k": ("P", "tab:red"), "1/k Σ y/p": ("unbiased-P", "tab:blue")}
N_POINTS, N_LABELS = 2000, 300


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


def drop_repeatedly(
    complete: sparse.csr_matrix, predictions: Predictions, p: np.ndarray, repeats: int
) -> dict[str, np.ndarray]:
    """Return the values of each estimate, (repetitions, ks)."""
    rng = np.random.default_rng(1)
    keep = p[complete.indices]
    values = {name: np.empty((repeats, len(KS))) for name in ESTIMATES}
    for repeat in range(repeats):
        observed = complete.copy()
        observed.data = (rng.random(keep.size) < keep).astype(np.float32)
        matches = Matches.of(predictions, observed, inverse_propensities=1 / p)
        for name, (metric, _) in ESTIMATES.items():
            values[name][repeat] = [score(matches, f"{metric}@{k}") for k in KS]
    return values


def compared(values: dict[str, np.ndarray], truth: np.ndarray) -> list[dict[str, Any]]:
    """Return per k the mean of each estimate, and its distance to P@k on complete labels in standard errors."""
    rows: list[dict[str, Any]] = []
    for j, k in enumerate(KS):
        rows.append({"k": k, "complete": truth[j]})
        for name, (metric, _) in ESTIMATES.items():
            mean, error = values[name][:, j].mean(), values[name][:, j].std(ddof=1) / np.sqrt(len(values[name]))
            rows[-1][metric] = {"mean": mean, "standard_errors_off": abs(mean - truth[j]) / error}
    return rows


def table(rows: list[dict[str, Any]]) -> str:
    header = ["k", "P@k on complete labels", "mean of `unbiased-P@k`", "standard errors off", "mean of plain `P@k`"]
    cells = []
    for row in rows:
        unbiased, plain = row["unbiased-P"], row["P"]
        cells.append([str(row["k"]), f"{row['complete']:.4f}", f"{unbiased['mean']:.4f}"])
        cells[-1] += [f"{unbiased['standard_errors_off']:.1f}", f"{plain['mean']:.4f}"]
        cells[-1].append(f"{plain['standard_errors_off']:.0f}")
    return markdown_table([*header, "standard errors off"], cells)


def draw(by_rarest: dict[float, dict[str, np.ndarray]], shown: float, truth: np.ndarray, out: Path) -> None:
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
    for name, (_, color) in ESTIMATES.items():
        left.hist(100 * by_rarest[shown][name][:, 1], bins=15, color=color, alpha=0.7, label=name)
    left.axvline(100 * truth[1], color="black", linestyle="--", label="complete labels")
    left.set(
        xlabel="P@3 estimated from the observed labels, %",
        ylabel=f"repetitions (of {len(by_rarest[shown][name])})",
        title=f"Labels dropped again and again (p = {shown} to 0.95)",
    )
    left.legend()
    rarest = sorted(by_rarest)
    for name, (_, color) in ESTIMATES.items():
        columns = [100 * by_rarest[r][name][:, 1] for r in rarest]
        errors = [3 * column.std(ddof=1) / np.sqrt(column.size) for column in columns]
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
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=400)
    add_out(parser)
    options = parser.parse_args()
    complete, predictions = plant()
    matches = Matches.of(predictions, complete)
    truth = np.array([score(matches, f"P@{k}") for k in KS])
    by_rarest = {
        r: drop_repeatedly(complete, predictions, propensities(complete, r), options.repeats)
        for r in (0.1, 0.3, 0.5, 0.7, 0.9)
    }
    shown = 0.3
    rows = compared(by_rarest[shown], truth)
    print(table(rows))
    content = {"repeats": options.repeats, "rarest_propensity": shown, "rows": rows, "table": table(rows)}
    command = f"python -m benchmarks.metrics.unbiasedness --repeats {options.repeats}"
    save("unbiasedness", content, command, folder=options.out)
    draw(by_rarest, shown, truth, image("unbiasedness.png", options.out))


if __name__ == "__main__":
    main()
