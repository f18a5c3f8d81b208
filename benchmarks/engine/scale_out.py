"""Training on Ray clusters of 1, 2, 4, ... simulated nodes, beside threads: seconds, and whether the model is the same.

    python -m benchmarks.engine.scale_out [--recipe yso-finna-en/dismec] [--nodes 1 2] [--data-root ../shared/data]

A node has one CPU, so that N nodes stand beside N threads; all are on this machine. Each fit runs after one on a few
points, which compiles kernels and starts the workers. Needs the extra `distributed`. Writes
docs/lab/benchmarks/scale-out-DATASET.json.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from scipy import sparse

from benchmarks.common import add_out, markdown_table, save
from benchmarks.common.data import add_data_root, features_of, recipe_named
from longtail.bench.prepare import MissingData
from longtail.core.engine import Engine, Threads
from longtail.core.fingerprint import fingerprint
from longtail.core.run import Run
from longtail.engine.ray import RayEngine
from longtail.workflow.build import build_estimator

_FEW = 500  # points of the fit before


@contextmanager
def ray_engine(n_nodes: int) -> Iterator[Engine]:
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    try:
        for _ in range(n_nodes - 1):
            cluster.add_node(num_cpus=1)
        with RayEngine(cluster.address) as engine:
            yield engine
    finally:
        cluster.shutdown()


def measured(model: str, X: sparse.csr_matrix, Y: sparse.csr_matrix, engine: Engine, n_jobs: int) -> tuple[float, str]:
    """Return the seconds of a training, and a digest of what it learned."""
    run = Run(engine=engine)
    build_estimator(model, text=False, threads=n_jobs).fit(X[:_FEW], Y[:_FEW], run=run)
    started = time.perf_counter()
    fitted = build_estimator(model, text=False, threads=n_jobs).fit(X, Y, run=run)
    seconds = time.perf_counter() - started
    arrays = fitted._get_state().arrays
    return seconds, fingerprint(*(arrays[name] for name in sorted(arrays)))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--recipe", default="yso-finna-en/dismec", help="what to train, on which data")
    parser.add_argument("--nodes", type=int, nargs="+", default=[1, 2])
    add_data_root(parser)
    add_out(parser)
    arguments = parser.parse_args()
    dataset, _, model = arguments.recipe.partition("/")
    try:
        data, _ = features_of(recipe_named(arguments.recipe), arguments.data_root)
    except MissingData as error:
        print(f"not run: {error}")
        return 2
    rows: list[dict[str, Any]] = []
    for nodes in arguments.nodes:
        alone, wanted = measured(model, data.X, data.Y, Threads(), nodes)
        with ray_engine(nodes) as engine:
            together, found = measured(model, data.X, data.Y, engine, nodes)
        rows.append({"nodes": nodes, "threads_s": alone, "ray_s": together, "same_model": found == wanted})
        print(f"{nodes}: threads {alone:.1f} s, Ray {together:.1f} s, same model: {found == wanted}", flush=True)
    cells = [
        [str(row["nodes"]), f"{row['threads_s']:.1f}", f"{row['ray_s']:.1f}", f"{row['ray_s'] / row['threads_s']:.2f}"]
        for row in rows
    ]
    table = markdown_table(["threads, or nodes of one CPU", "threads s", "Ray s", "Ray / threads"], cells, left=())
    nodes = " ".join(map(str, arguments.nodes))
    command = f"python -m benchmarks.engine.scale_out --recipe {arguments.recipe} --nodes {nodes}"
    save(f"scale-out-{dataset}", {"model": model, "rows": rows, "table": table}, command, folder=arguments.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
