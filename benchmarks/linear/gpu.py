"""DiSMEC on a GPU: seconds of whole trainings, what takes them, a check in float64, and metrics beside the CPU's.

    python -m benchmarks.linear.gpu eurlex57k debian-depends yso-finna-en amazon-670k-like [--data-root FOLDER]
    compute-sanitizer --tool memcheck python -m benchmarks.linear.gpu --small

Seconds are those of `fit`, data in host memory at the start and model there in the end: checks, transfers, training,
pruning. Kernels are compiled before. Every set is trained without weighting, with PW and with PW-cb, to gaps of 0.03,
0.01 and 0.003; the CPU trains to the first and the last of these. The float64 check computes W = sum a y x from the
dual variables and the gap from it, for all labels, or for a share of them where that would take longer than the
training. Writes docs/lab/benchmarks/gpu-SET.json.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from benchmarks.common import add_out, decimals, markdown_table, save
from benchmarks.common.data import add_data_root, features_of, recipe_named
from benchmarks.common.metrics import METRICS, measured
from benchmarks.linear.gpu_check import checked_and_profiled, profile
from benchmarks.linear.gpu_sets import SIZES, made_up
from longtail import DiSMEC
from longtail.core.fingerprint import fingerprint
from longtail.linear.gpu import train

WEIGHTINGS = (None, "pw", "pw-cb")
GAPS = (0.03, 0.01, 0.003)
TEST_POINTS = 10_000  # of a made-up set


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", nargs="*", help="recipes' datasets, or of " + ", ".join(SIZES))
    parser.add_argument("--small", action="store_true", help="train and predict on a small set once, for a sanitizer")
    parser.add_argument("--tune", action="store_true", help="compare widths of chains and starts instead")
    parser.add_argument("--no-cpu", action="store_true", help="leave the models of the CPU out")
    parser.add_argument("--gaps", type=float, nargs="+", default=GAPS)
    parser.add_argument("--weightings", nargs="+", default=["none", "pw", "pw-cb"])
    parser.add_argument("--repeat", type=int, default=2)
    parser.add_argument("--reproducible", action="store_true", help="time the reproducible mode, too")
    add_data_root(parser)
    add_out(parser)
    options = parser.parse_args()
    if options.small:
        small()
        return
    warm_up()
    for name in options.sets:
        if options.tune:
            tune(name, options.data_root)
        else:
            measure_set(name, options)


def measure_set(name: str, options: argparse.Namespace) -> None:
    """Measure one set and write its file."""
    X, Y, X_test, Y_test = data_of(name, options.data_root)
    labels = np.unique(Y.indices).size
    content: dict[str, Any] = {"points": X.shape[0], "features": X.shape[1], "labels": labels}
    content |= {"values": X.nnz}
    print(name, content, flush=True)
    content["rows"] = []
    for given in options.weightings:
        weighting = None if given == "none" else given
        for gap in options.gaps:
            settings = {"weighting": weighting, "tol": gap}
            row: dict[str, Any] = {"weighting": given, "tol": gap}
            for key, more, times in variants(options, gap):
                row |= trained(key, DiSMEC(**settings, **more), (X, Y, X_test, Y_test), times)
                print(row, flush=True)
            content["rows"].append(row)
            keep(name, content, options.out)
            if gap == options.gaps[0]:
                checked, found = checked_and_profiled(X, Y, DiSMEC(**settings))
                row |= checked.as_row()
                content.setdefault("profile", found)
                print(checked, found, flush=True)
                keep(name, content, options.out)
    print(content["table"], flush=True)


def keep(name: str, content: dict[str, Any], folder: Path) -> None:
    """Write what is measured so far."""
    content["table"] = table(content["rows"])
    command = f"python -m benchmarks.linear.gpu {name}"
    save(f"gpu-{name}", content, command, folder=folder, machine_name=gpu_name())


def tune(name: str, data_root: Path | None) -> None:
    """Print the seconds of a set by the number of labels per chain, from zero and from a label without positives."""
    X, Y, _, _ = data_of(name, data_root)
    chosen = train._FROM_START
    for from_start in (False, True):
        train._FROM_START = 0.0 if from_start else np.inf
        for width in (4, 8, 16, 32):
            found = [profile(X, Y, DiSMEC(), width) for _ in range(2)][1]  # the first compiles
            kernels = {kernel: found["milliseconds"].get(kernel) for kernel in ("steps", "look", "prune_fill")}
            kernels["launches"] = found["launches"]["look"]
            print(
                name, "start" if from_start else "zero", width, found["seconds"], kernels, found["visits"], flush=True
            )
    train._FROM_START = chosen


def variants(options: argparse.Namespace, gap: float) -> list[tuple[str, dict[str, Any], int]]:
    """Return key, parameters and repetitions of what is trained: the CPU only once, to the first and the last gap."""
    found: list[tuple[str, dict[str, Any], int]] = [("gpu", {"device": "cuda"}, options.repeat)]
    if options.reproducible and gap == options.gaps[0]:
        found.append(("ordered", {"device": "cuda", "reproducible": True}, 2))
    if not options.no_cpu and gap in (options.gaps[0], options.gaps[-1]):
        found.append(("cpu", {"solver": "full"}, 1))
    return found


def trained(key: str, model: DiSMEC, data: tuple[sparse.csr_matrix, ...], times: int) -> dict[str, Any]:
    """Train a model `times` times and return its figures, their names prefixed by `key`."""
    X, Y, X_test, Y_test = data
    seconds, weights = [], []
    for _ in range(times):
        started = time.perf_counter()
        model.fit(X, Y)
        seconds.append(round(time.perf_counter() - started, 3))
        weights.append(fingerprint(*model._shards.to_state().arrays.values()))
    started = time.perf_counter()
    ranked = model.predict(X_test, k=5)
    found: dict[str, Any] = {"train_s": seconds, "predict_s": round(time.perf_counter() - started, 3)}
    found |= {"gap": float(model.gaps_.max()), "weights": sum(part.values.size for part in model._shards.parts)}
    if times > 1:
        found["same_bits"] = len(set(weights)) == 1
    found |= measured(ranked, Y_test, np.bincount(Y.indices, minlength=Y.shape[1]), X.shape[0])
    return {f"{key}_{name}": value for name, value in found.items()}


def data_of(name: str, data_root: Path | None) -> tuple[sparse.csr_matrix, ...]:
    """Return X, Y, X_test and Y_test of a recipe's dataset or of a made-up set."""
    if name in SIZES:
        import cupy

        return made_up(SIZES[name], TEST_POINTS, xp=cupy)
    train, test = features_of(recipe_named(f"{name}/dismec"), data_root)
    return train.X, train.Y, test.X, test.Y


def table(rows: list[dict[str, Any]]) -> str:
    """Return the figures of a set as a table."""
    header = ["weighting", "gap", "GPU s", "CPU s", "largest gap, float64", "drift", *METRICS]
    header += [f"CPU {metric}" for metric in METRICS]
    cells = []
    for row in rows:
        cpu = f"{min(row['cpu_train_s']):.1f}" if "cpu_train_s" in row else "–"
        checked = [f"{row['check_gap']:.4f}", f"{row['check_drift']:.1e}"] if "check_gap" in row else ["–", "–"]
        ours, theirs = (decimals(row, [f"{key}_{metric}" for metric in METRICS]) for key in ("gpu", "cpu"))
        first = [row["weighting"], str(row["tol"]), f"{min(row['gpu_train_s']):.2f}", cpu]
        cells.append([*first, *checked, *ours, *theirs])
    return markdown_table(header, cells)


def warm_up() -> None:
    """Compile what the measurements use, on the GPU and on the CPU."""
    size = SIZES["small-like"]
    for data in (size, size._replace(mean_tokens=10), size._replace(mean_tokens=200)):  # 16, 32 and 8 labels per chain
        X, Y, _, _ = made_up(data, 0)
        DiSMEC(device="cuda", tol=0.1).fit(X, Y).predict(X, k=5)
        DiSMEC(device="cuda", tol=0.1, reproducible=True).fit(X, Y)
    DiSMEC(tol=0.1, solver="full").fit(X, Y).predict(X, k=5)


def short(X: sparse.csr_matrix) -> sparse.csr_matrix:
    """Return rows of at most 16 values: other kernels are compiled for these."""
    kept = X.copy()
    place = np.arange(X.nnz) - np.repeat(X.indptr[:-1], np.diff(X.indptr))
    kept.data[place >= 16] = 0
    kept.eliminate_zeros()
    return kept


def small() -> None:
    """Train with every loss, start and mode on few points, without CuPy's memory pool, so that tools see each array."""
    import cupy

    cupy.cuda.set_allocator(None)
    X, Y, _, _ = made_up(SIZES["small-like"]._replace(n_points=300, n_labels=90, n_topics=5), 0)
    rows = sparse.csr_matrix(sparse.vstack([X] * 4))
    for loss in ("squared-hinge", "hinge", "logistic"):
        for features in (X, short(X)):
            model = DiSMEC(device="cuda", loss=loss).fit(features, Y)
            print(loss, float(model.gaps_.max()), model.predict(rows, k=5).labels[0])
    train._FROM_START = 0
    print("from a start", float(DiSMEC(device="cuda").fit(X, Y).gaps_.max()))
    print("reproducible", float(DiSMEC(device="cuda", reproducible=True).fit(X, Y).gaps_.max()))


def gpu_name() -> str:
    """Return the name of the first GPU, and how many cores the CPU beside it has."""
    import os

    import cupy

    return f"{cupy.cuda.runtime.getDeviceProperties(0)['name'].decode()}, {os.cpu_count()} cores"


if __name__ == "__main__":
    main()
