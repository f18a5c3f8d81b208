"""Fit the propensity model to EURLEX57K through the EuroVoc hierarchy, and show how well it fits.

    python -m benchmarks.data.propensity_fit [--data-root FOLDER]

A law that is tagged with a concept should be tagged with the concepts above it; where it is not, those are missing
(Jain et al. 2016, section 5). Prints A, B, R2 and RMSE, writes
docs/lab/benchmarks/propensity-eurlex57k.json and docs/images/propensity_fit.png.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np

from benchmarks.common import add_out, image, save
from benchmarks.common.data import add_data_root, data_root
from longtail.data import read_dataset, read_label_table
from longtail.objectives import HierarchyCounts, PropensityFit, PropensityModel, fit_propensities, hierarchy_counts

mpl.use("Agg")
from matplotlib import pyplot as plt

COMMAND = "python -m benchmarks.data.propensity_fit"


def quality(model: PropensityModel, fit: PropensityFit, n_points: int) -> tuple[float, float]:
    """Return R2 and RMSE of a model against the bins of the fit."""
    residuals = model.propensities(fit.frequency, n_points) - fit.propensity
    return float(1 - np.mean(residuals**2) / fit.propensity.var()), float(np.sqrt(np.mean(residuals**2)))


def summary(fit: PropensityFit, n_points: int, never_noted: int) -> dict[str, Any]:
    default_r2, default_rmse = quality(PropensityModel(), fit, n_points)
    return {
        "dataset": "eurlex57k",
        "A": fit.model.A,
        "B": fit.model.B,
        "C": fit.model.scale(n_points),
        "r2": fit.r2,
        "rmse": fit.rmse,
        "default_r2": default_r2,
        "default_rmse": default_rmse,
        "n_points": n_points,
        "n_labels": fit.n_labels,
        "n_bins": int(fit.frequency.size),
        "n_never_noted": never_noted,
        "bins": np.column_stack([fit.frequency, fit.propensity]).round(6).tolist(),
    }


def draw(fit: PropensityFit, counts: HierarchyCounts, n_points: int, path: Path) -> None:
    figure, axes = plt.subplots(figsize=(7, 4.5), layout="constrained")
    each = counts.counts / counts.complete_counts
    axes.scatter(counts.counts, each, s=8, color="0.8", label=f"{fit.n_labels} labels, one by one")
    axes.scatter(fit.frequency, fit.propensity, s=30, color="tab:blue", zorder=3, label="means of bins of 20 labels")
    n = np.geomspace(1, counts.counts.max(), 200)
    named = f"fit: A = {fit.model.A:.2f}, B = {fit.model.B:.2f} (R² {fit.r2:.2f}, RMSE {fit.rmse:.3f})"
    axes.plot(n, fit.model.propensities(n, n_points), color="tab:red", label=named)
    axes.plot(
        n, PropensityModel().propensities(n, n_points), "--", color="tab:gray", label="default: A = 0.55, B = 1.5"
    )
    axes.set(xscale="log", ylim=(0, 1), xlabel="training points of the label", ylabel="estimated propensity")
    axes.set_title("EURLEX57K: how often a EuroVoc concept is observed where it applies")
    axes.legend(loc="upper left", fontsize=9)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_data_root(parser)
    add_out(parser)
    arguments = parser.parse_args()
    folder = data_root(arguments.data_root) / "eurlex57k"
    if not folder.is_dir():
        sys.exit(f"{folder} is absent; give the folder of datasets with --data-root")
    table = read_label_table(folder / "labels.json.xz")
    train = read_dataset(folder / "train.jsonl.xz")
    assert train.label_names is not None
    counts = hierarchy_counts(train.Y, train.label_names, table.parents)
    fit = fit_propensities(counts.counts, counts.complete_counts, train.n_points)

    # Concepts that apply to some law, but that no law has: their propensity of 0 is not in the fit.
    every = [*train.label_names, *sorted(set(table.names) - set(train.label_names))]
    wider = train.Y.copy()
    wider.resize(train.n_points, len(every))
    named = hierarchy_counts(wider, every, table.parents)
    never_noted = int(((named.counts == 0) & (named.complete_counts > 0)).sum())

    result = summary(fit, train.n_points, never_noted)
    save("propensity-eurlex57k", result, COMMAND, folder=arguments.out)
    draw(fit, counts, train.n_points, image("propensity_fit.png", arguments.out))
    print(f"A = {fit.model.A:.3f}, B = {fit.model.B:.3f}, R2 = {fit.r2:.3f}, RMSE = {fit.rmse:.4f}")
    print(f"{fit.n_labels} labels in {fit.frequency.size} bins; {never_noted} more apply, but are never observed")
    print(f"default A = 0.55, B = 1.5: R2 = {result['default_r2']:.3f}, RMSE = {result['default_rmse']:.4f}")


if __name__ == "__main__":
    main()
