"""A real Ray cluster of three nodes on this machine, one per module of tests."""

from __future__ import annotations

import pytest

from engine.on_ray import STORE, processes_of, until
from longtail.engine.ray import RayEngine


@pytest.fixture(scope="module")
def cluster():
    import ray
    from ray.cluster_utils import Cluster

    found = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "object_store_memory": STORE})
    for _ in range(2):
        found.add_node(num_cpus=1, object_store_memory=STORE)
    session = found.head_node.get_session_dir_path()
    yield found
    ray.shutdown()
    found.shutdown()
    until(lambda: not processes_of(session), "processes of Ray are left over")


@pytest.fixture(scope="module")
def engine(cluster):
    with RayEngine(cluster.address) as found:
        yield found
