"""What each choice in the label-blocked solver is worth: the same labels trained with one choice undone at a time.

    python -m benchmarks.linear.solver_choices [--blocks 12] [--weighting pw] [--repeat 2] [--only VARIANT ...]

Each variant runs in its own process with its own Numba cache (choices are compiled into the kernels), in one
thread, on EURLEX57K with the features of recipes/eurlex57k/dismec.toml. Blocks are taken evenly from the whole list, so
that their sum stands for all labels; tol and bias are DiSMEC's defaults. CPU seconds are those of the solver alone,
after compilation. Writes docs/lab/benchmarks/solver-choices-WEIGHTING.json.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numba import njit

from benchmarks.common import add_out, markdown_table, save
from benchmarks.common.data import add_data_root, features_folder, recipe_named
from benchmarks.common.process import measured_apart
from longtail.bench.prepare import MissingData
from longtail.data import read_dataset
from longtail.linear import simd, vectors

# --- choices undone: each changes a module before its kernels are compiled --------------------------------------------


def as_built() -> None: ...


def no_returns() -> None:
    from longtail.linear import kernels

    kernels._RETURNS = 0


def one_full_round() -> None:
    from longtail.linear import kernels

    kernels._FULL_ROUNDS = 1


def fixed_order() -> None:
    from longtail.linear import kernels

    kernels.shuffled = njit(lambda points, state: points.copy())


def fully_random_order() -> None:
    from longtail.linear import kernels
    from longtail.linear.order import shuffle

    @njit
    def shuffled(points, state):
        order = points.copy()
        shuffle(order, order.shape[0], state)
        return order

    kernels.shuffled = shuffled


def all_points_every_pass() -> None:
    from longtail.linear import kernels

    sweep, shuffled = kernels.sweep, kernels.shuffled

    @njit
    def sweep_of_all(order, positives, loss, X, norms, weights, labels, costs, duals, W, live, sums, active, state):
        everyone = shuffled(np.arange(norms.shape[0]).astype(np.uint32), state)
        sweep(everyone, positives, loss, X, norms, weights, labels, costs, duals, W, live, sums, active, state)

    kernels.sweep = sweep_of_all


def plain_loops() -> None:
    from longtail.linear import kernels

    kernels.block_dots, kernels.block_adds = _plain_dots, _plain_adds


@njit(fastmath={"contract"})
def _plain_dots(W, indices, values, start, end, z):
    z[:] = 0
    for p in range(start, end):
        row, x = W[indices[p]], values[p]
        for b in range(z.shape[0]):
            z[b] += x * row[b]


@njit(fastmath={"contract"})
def _plain_adds(W, indices, values, start, end, d):
    for p in range(start, end):
        row, x = W[indices[p]], values[p]
        for b in range(d.shape[0]):
            row[b] += x * d[b]


def block_of(size: int) -> Callable[[], None]:
    def change() -> None:
        simd.BLOCK = vectors.BLOCK = size  # before kernels and solver are imported

    return change


# --- which labels make a block ----------------------------------------------------------------------------------------


def similar(X: Any, Y: Any) -> list[Any]:
    from longtail.linear.blocks import label_blocks

    return label_blocks(X, Y)


def by_frequency(X: Any, Y: Any) -> list[Any]:
    counts = np.bincount(Y.indices, minlength=Y.shape[1])
    return _cut(np.argsort(-counts, kind="stable")[: np.count_nonzero(counts)])


def at_random(X: Any, Y: Any) -> list[Any]:
    return _cut(np.random.default_rng(0).permutation(np.unique(Y.indices)))


def _cut(labels: Any) -> list[Any]:
    return [labels[first : first + simd.BLOCK] for first in range(0, labels.size, simd.BLOCK)]


VARIANTS: dict[str, tuple[Callable[[], None], Callable[..., list[Any]]]] = {
    "as built": (as_built, similar),
    "blocks by frequency alone": (as_built, by_frequency),
    "blocks of random labels": (as_built, at_random),
    "blocks of 16 labels": (block_of(16), similar),
    "blocks of 64 labels": (block_of(64), similar),
    "plain Numba loops": (plain_loops, similar),
    "no returns to positives": (no_returns, similar),
    "a look at all after one full pass": (one_full_round, similar),
    "the same order every pass": (fixed_order, similar),
    "fully random order": (fully_random_order, similar),
    "every pass over all points": (all_points_every_pass, similar),
}


# --- one variant, measured --------------------------------------------------------------------------------------------


def measure(variant: str, folder: Path, n_labels: int, weighting: str | None) -> dict[str, Any]:
    change, make_blocks = VARIANTS[variant]
    change()
    from longtail.linear.dismec import DiSMEC
    from longtail.linear.solver import BlockSolver
    from longtail.objectives import resolve_weighting

    train = read_dataset(folder / "train")
    own, _ = resolve_weighting(weighting).coefficients(train.label_counts, train.n_points)
    blocks = make_blocks(train.X, train.Y)
    n_chosen = max(1, round(n_labels / simd.BLOCK))
    chosen = [blocks[int((j + 0.5) * len(blocks) / n_chosen)] for j in range(n_chosen)]
    BlockSolver(train.X[:100], train.Y[:100], DiSMEC().solver_options()).train(chosen[-1])  # compiles
    options = DiSMEC(max_passes=1000).solver_options()
    block_solver = BlockSolver(train.X, train.Y, options, positive_weights=own)
    with Meter() as meter:
        for labels in chosen:
            trained = block_solver.train(labels)
            meter.passes.append(trained.passes)
    passes = np.array(meter.passes)
    labels = sum(block.size for block in chosen)
    return {
        "labels": labels,
        "cpu_s_per_1000_labels": round(1000 * meter.seconds / labels, 2),
        "full_passes": round(float(passes[:, 0].mean()), 2),
        "inner_passes": round(float(passes[:, 1].mean()), 1),
        "unsettled_points": round(float(np.mean(meter.unsettled))),
    }


class Meter:
    """CPU seconds of `solve_block` alone, and the points that hold a dual variable above zero when it is done."""

    def __enter__(self) -> Meter:
        from longtail.linear import kernels

        self.seconds, self.unsettled, self.passes = 0.0, [], []
        self._solve = kernels.solve_block
        kernels.solve_block = self._measured
        return self

    def __exit__(self, *_: object) -> None:
        from longtail.linear import kernels

        kernels.solve_block = self._solve

    def _measured(self, *arguments: Any) -> Any:
        start = time.thread_time()
        result = self._solve(*arguments)
        self.seconds += time.thread_time() - start
        self.unsettled.append(int((arguments[6] > 0).any(axis=1).sum()))
        return result


def run_in_process(variant: str, folder: Path, arguments: argparse.Namespace) -> dict[str, Any]:
    given = ["--measure", variant, folder, "--blocks", arguments.blocks]
    given += ["--weighting", arguments.weighting] if arguments.weighting else []
    with tempfile.TemporaryDirectory() as cache:
        found: dict[str, Any] = measured_apart(__spec__.name, *given, environment={"NUMBA_CACHE_DIR": cache})
    return found


def joined(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Return one row of several runs: the seconds of each; the rest does not vary."""
    return runs[0] | {"cpu_s_per_1000_labels": [run["cpu_s_per_1000_labels"] for run in runs]}


def table(rows: dict[str, dict[str, Any]]) -> str:
    base = np.mean(next(iter(rows.values()))["cpu_s_per_1000_labels"])
    cells = []
    for variant, row in rows.items():
        seconds = row["cpu_s_per_1000_labels"]
        cells.append([variant, ", ".join(f"{s:g}" for s in seconds), f"x {np.mean(seconds) / base:.2f}"])
        cells[-1] += [f"{row['full_passes']:g}", f"{row['inner_passes']:g}"]
        cells[-1].append(f"{row['unsettled_points']:,}" if "unsettled_points" in row else "–")
    header = ["variant", "CPU s per 1,000 labels", "", "full passes", "inner passes", "unsettled points"]
    return markdown_table(header, cells)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_data_root(parser)
    parser.add_argument("--blocks", type=int, default=12, help="how many blocks of 32 labels")
    parser.add_argument("--weighting", choices=("pw", "pw-cb"))
    parser.add_argument("--repeat", type=int, default=1, help="how often each variant is measured")
    add_out(parser)
    parser.add_argument("--only", nargs="+", choices=VARIANTS, default=list(VARIANTS), metavar="VARIANT")
    parser.add_argument("--measure", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        variant, folder = arguments.measure
        print(json.dumps(measure(variant, Path(folder), 32 * arguments.blocks, arguments.weighting)))
        return 0
    try:
        folder = features_folder(recipe_named("eurlex57k/dismec"), arguments.data_root)
    except MissingData as error:
        print(f"not run: {error}")
        return 2
    print(f"{arguments.blocks} x 32 labels of EURLEX57K, weighting {arguments.weighting}, one thread")
    rows = {}
    for variant in arguments.only:
        rows[variant] = joined([run_in_process(variant, folder, arguments) for _ in range(arguments.repeat)])
        print(variant, rows[variant], flush=True)
    print(table(rows))
    weighting = arguments.weighting or "none"
    given = f" --weighting {weighting}" if arguments.weighting else ""
    save(
        f"solver-choices-{weighting}",
        {"weighting": weighting, "blocks": arguments.blocks, "rows": rows, "table": table(rows)},
        f"python -m benchmarks.linear.solver_choices --blocks {arguments.blocks}{given} --repeat {arguments.repeat}",
        folder=arguments.out,
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
