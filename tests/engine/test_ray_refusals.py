"""What a real Ray cluster cannot do: messages that name the node and the remedy, and finished parts are kept."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import longtail
from engine.on_ray import STORE, mapped
from engine.small import small
from longtail.app.fitting import _keep_or_clear
from longtail.core.checkpoint import Checkpoint
from longtail.core.run import Run
from longtail.data import Dataset, write_dataset
from longtail.engine.ray import RayEngine
from longtail.errors import EngineError, ParameterError, TrainingError

ray = pytest.importorskip("ray", reason="Ray is not installed; bash scripts/test-ray runs these tests")
pytestmark = pytest.mark.filterwarnings("default")  # those of Ray


def test_an_error_on_a_worker_is_raised_as_it_was(engine):
    def failing(shared, part):
        raise ParameterError("C is too large")

    with pytest.raises(ParameterError, match="C is too large"):
        mapped(engine, failing, [1, 2])


def test_any_other_error_on_a_worker_names_the_node(engine):
    with pytest.raises(TrainingError, match=rf"a part failed on node {platform.node()}: ZeroDivisionError"):
        mapped(engine, lambda shared, part: 1 // 0, [1])


def test_what_no_node_can_hold_is_refused_by_name(engine):
    with pytest.raises(EngineError, match=r"a part needs 1000000.0 GB of memory, but the largest node, .* offers"):
        mapped(engine, lambda shared, part: {}, [1], memory=10**15)


def test_a_file_that_a_node_does_not_see_is_named(engine, tmp_path):
    array = np.memmap(tmp_path / "x", np.uint8, "w+", shape=2 << 20)
    array.flush()
    mapped_array = np.memmap(tmp_path / "x", np.uint8, "r")
    os.rename(tmp_path / "x", tmp_path / "y")
    (tmp_path / "x").write_bytes(b"other")  # what another machine may have under this name
    with pytest.raises(EngineError, match=r"does not see .*x, which the data is mapped from"):
        mapped(engine, lambda shared, part: {"x": shared[:1]}, [1], mapped_array)


def test_where_there_is_no_cluster_the_message_says_how_to_start_one():
    with pytest.raises(ParameterError, match=r"no Ray cluster at 127.0.0.1:1 \(Connection refused\); start one with"):
        RayEngine("127.0.0.1:1")._initialise(ray)


OTHER_VERSION = f"__version__ = '9.9'\n__path__ = [{str(Path(longtail.__file__).parent)!r}]\n"
NO_PACKAGE = "raise ImportError\n"


@pytest.fixture
def other_node(cluster, tmp_path):
    """Return a function that adds a node whose Python finds another package by the name of longtail."""
    added = []

    def add(package):
        (tmp_path / "packages" / "longtail").mkdir(parents=True)
        (tmp_path / "packages" / "longtail" / "__init__.py").write_text(package)
        variables = {"PYTHONPATH": str(tmp_path / "packages")}
        added.append(cluster.add_node(num_cpus=1, object_store_memory=STORE, env_vars=variables))

    yield add
    for node in added:
        cluster.remove_node(node)


@pytest.mark.parametrize(("package", "said"), [(OTHER_VERSION, "9.9"), (NO_PACKAGE, r"\(not installed\)")])
def test_other_versions_on_a_node_are_named(engine, other_node, package, said):
    other_node(package)
    with pytest.raises(EngineError, match=rf"node .* has Python .*, longtail {said}, but this machine has .*; install"):
        engine.check_nodes()


@pytest.mark.parametrize(("package", "said"), [(OTHER_VERSION, "9.9"), (NO_PACKAGE, r"\(not installed\)")])
def test_a_wrong_node_that_comes_later_costs_no_finished_part(engine, other_node, tmp_path, package, said):
    def slow(shared, part):
        time.sleep(0.5)
        return {"x": np.array(part)}

    checkpoint = Checkpoint(tmp_path / "partial", resume=False)
    checkpoint.open({})
    run = Run(engine=engine, checkpoint=checkpoint)

    def train():
        with run.map(slow, range(200), shared=None, name="p", title="parts") as results:
            for number, _ in enumerate(results):
                if number == 3:
                    other_node(package)

    with pytest.raises(
        EngineError, match=rf"node .* longtail {said}, but .* install the same on all nodes, .*resume"
    ) as raised:
        train()
    _keep_or_clear(checkpoint, raised.value, resume=False)
    assert checkpoint.holds_parts()


def test_a_search_of_models_that_do_not_train_in_parts_is_refused(cluster, tmp_path):
    X, Y = small()
    write_dataset(Dataset(Y, X=X), tmp_path / "data")
    command = [sys.executable, "-m", "longtail.app.cli", "tune", str(tmp_path / "data"), "--model", "dismec,glas"]
    command += ["--trials", "2", "--study", str(tmp_path / "s.log"), "--ray", cluster.address]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "--ray is for models that train in independent parts" in " ".join(done.stderr.split())
    assert not (tmp_path / "s.log").exists()
