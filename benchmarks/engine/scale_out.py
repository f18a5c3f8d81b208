"""Training on Ray clusters of 1, 2, 4, ... simulated nodes, beside threads: seconds, and whether the model is the same.

    python -m benchmarks.engine.scale_out [--recipe yso-finna-en/dismec] [--nodes 1 2] [--cpus 1] [--points 100000]
                                          [--data-root ../shared/data]

N nodes of C CPUs each stand beside N x C threads; all are on this machine. Each fit runs after one on a few
points, which compiles kernels and starts the workers. Of DiSMEC, single blocks are timed, too, for an estimate of
Amazon-3M on 32 nodes of 16 cores (benchmarks/engine/estimate.py). Needs the extra `distributed`. Writes
docs/lab/benchmarks/scale-out-DATASET-N-cores.json, where N is the number of cores of this machine, after each number of
nodes; scale-out-DATASET-POINTS-N-cores.json for a sample of the points.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from scipy import sparse

from benchmarks.common import add_out, markdown_table, save
from benchmarks.common.data import add_data_root, features_of, recipe_named
from benchmarks.engine.estimate import AMAZON_3M, block_costs, estimate
from longtail.bench.prepare import MissingData
from longtail.core.engine import Engine, Threads
from longtail.core.fingerprint import fingerprint
from longtail.core.run import Run
from longtail.core.threads import thread_count
from longtail.data import Dataset
from longtail.engine.ray import RayEngine
from longtail.linear.rare import LEAST_WORK
from longtail.workflow.build import build_estimator

_FEW = 500  # points of the fit before, at least
_STORE = 500_000_000  # bytes of each node's object store: many nodes share the memory of one machine


@contextmanager
def ray_engine(n_nodes: int, n_cpus: int) -> Iterator[Engine]:
    from ray.cluster_utils import Cluster

    node = {"num_cpus": n_cpus, "object_store_memory": _STORE}
    cluster = Cluster(initialize_head=True, head_node_args=node)
    try:
        for _ in range(n_nodes - 1):
            cluster.add_node(**node)
        with RayEngine(cluster.address) as engine:
            yield engine
    finally:
        cluster.shutdown()


def measured(model: str, X: sparse.csr_matrix, Y: sparse.csr_matrix, engine: Engine, n_jobs: int) -> tuple[float, str]:
    """Return the seconds of a training, and a digest of what it learned."""
    run = Run(engine=engine)
    few = max(_FEW, math.ceil(LEAST_WORK / Y.shape[1]))  # so that rare labels are trained by the kernels of the whole
    build_estimator(model, text=False, threads=n_jobs).fit(X[:few], Y[:few], run=run)
    started = time.perf_counter()
    fitted = build_estimator(model, text=False, threads=n_jobs).fit(X, Y, run=run)
    seconds = time.perf_counter() - started
    arrays = fitted._get_state().arrays
    return seconds, fingerprint(*(arrays[name] for name in sorted(arrays)))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--recipe", default="yso-finna-en/dismec", help="what to train, on which data")
    parser.add_argument("--nodes", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--cpus", type=int, default=1, help="CPUs of a node")
    parser.add_argument("--points", type=int, help="train on a random sample of so many points")
    add_data_root(parser)
    add_out(parser)
    arguments = parser.parse_args()
    model = arguments.recipe.partition("/")[2]
    try:
        data, _ = features_of(recipe_named(arguments.recipe), arguments.data_root)
    except MissingData as error:
        print(f"not run: {error}")
        return 2
    if arguments.points:
        data = data.subset(np.sort(np.random.default_rng(0).permutation(data.n_points)[: arguments.points]))
    content: dict[str, Any] = {"model": model}
    rows: list[dict[str, Any]] = []
    for nodes in arguments.nodes:
        rows.append(row(model, data, nodes, arguments.cpus))
        print(
            "{nodes}: threads {threads_s:.1f} s, Ray {ray_s:.1f} s, same model: {same_model}".format(**rows[-1]),
            flush=True,
        )
        record(rows, content, arguments)
    if model == "dismec" and not arguments.points:
        costs = block_costs(data.X, data.Y)
        record(rows, content | {"costs": costs, "estimate": estimate(costs, AMAZON_3M)}, arguments)
    return 0


def row(model: str, data: Dataset, nodes: int, n_cpus: int) -> dict[str, Any]:
    """Return the seconds of so many nodes and of as many threads, and whether both made the same model."""
    threads = nodes * n_cpus
    alone, wanted = measured(model, data.X, data.Y, Threads(), threads)
    with ray_engine(nodes, n_cpus) as engine:
        together, found = measured(model, data.X, data.Y, engine, threads)
    return {"nodes": nodes, "threads_s": alone, "ray_s": together, "same_model": found == wanted}


def record(rows: list[dict[str, Any]], content: dict[str, Any], arguments: argparse.Namespace) -> None:
    """Write what was measured so far, in case the rest is interrupted."""
    nodes = " ".join(str(row["nodes"]) for row in rows)
    command = f"python -m benchmarks.engine.scale_out --recipe {arguments.recipe}"
    command += f" --nodes {nodes} --cpus {arguments.cpus}" + f" --points {arguments.points}" * bool(arguments.points)
    name = f"scale-out-{arguments.recipe.partition('/')[0]}" + f"-{arguments.points}" * bool(arguments.points)
    found = {"rows": rows, "table": table(rows, arguments.cpus)}
    save(f"{name}-{thread_count(None)}-cores", content | found, command, folder=arguments.out)


def table(rows: list[dict[str, Any]], n_cpus: int) -> str:
    """Return the seconds as a table, and how much of each node is made use of, beside the fewest nodes."""
    header = [f"nodes of {n_cpus} CPU{'s' * (n_cpus > 1)}", "threads s", "Ray s", "Ray / threads"]
    cells = [[str(row["nodes"]), _seconds(row, "threads_s"), _seconds(row, "ray_s"), _ratio(row)] for row in rows]
    if len(rows) > 1:
        header += ["efficiency of threads", "efficiency of Ray"]
        for row, line in zip(rows, cells, strict=True):
            line += [_efficiency(rows, row, key) for key in ("threads_s", "ray_s")]
    return markdown_table(header, cells, left=())


def _seconds(row: dict[str, Any], key: str) -> str:
    return f"{row[key]:.1f}" if key in row else "–"


def _ratio(row: dict[str, Any]) -> str:
    return f"{row['ray_s'] / row['threads_s']:.2f}" if "threads_s" in row else "–"


def _efficiency(rows: list[dict[str, Any]], row: dict[str, Any], key: str) -> str:
    if key not in row:
        return "–"
    first = next(one for one in rows if key in one)
    return f"{100 * first[key] * first['nodes'] / (row[key] * row['nodes']):.0f} %"


if __name__ == "__main__":
    sys.exit(main())
