"""Trainings on a real Ray cluster of three nodes on this machine: same models, whatever dies meanwhile.

Ray is not among the packages of continuous integration: `bash scripts/test-ray` installs it and runs these tests.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from contract.planted import planted
from engine.on_ray import STORE, mapped, until, workers_of
from engine.small import assert_same, small
from longtail import Bonsai, DiSMEC, RankNet, TextPipeline, load_model
from longtail.app.cli import main
from longtail.core.checkpoint import Checkpoint
from longtail.core.progress import Silent
from longtail.core.run import Run
from longtail.data import Dataset, write_dataset
from longtail.engine import flight
from longtail.errors import TrainingError

ray = pytest.importorskip("ray", reason="Ray is not installed; bash scripts/test-ray runs these tests")
pytestmark = pytest.mark.filterwarnings("default")  # those of Ray


@pytest.mark.parametrize(
    "make",
    [
        lambda: DiSMEC(),
        lambda: Bonsai(n_children=3, max_leaf=3, n_trees=2),
        lambda: RankNet(base=Bonsai(n_children=3, max_leaf=3, n_trees=1), folds=2, epochs=1),
    ],
    ids=["DiSMEC", "Bonsai", "RankNet"],
)
def test_the_model_is_that_of_threads(engine, make):
    X, Y = small()
    assert_same(make().fit(X, Y, run=Run(engine=engine)), make().fit(X, Y))


class Notes(Silent):
    """Progress that remembers what was noted beside it."""

    def __init__(self):
        self.notes = []

    def note(self, text):
        self.notes.append(text)


def test_parts_whose_worker_is_killed_are_computed_again(engine, tmp_path):
    folder = str(tmp_path)

    def killed_once(shared, part):
        mark = os.path.join(folder, str(part))
        if not os.path.exists(mark):
            open(mark, "w").close()
            os.kill(os.getpid(), signal.SIGKILL)
        return {"x": np.array(part * 2)}

    progress = Notes()
    assert mapped(engine, killed_once, range(20), progress=progress) == [2 * part for part in range(20)]
    assert progress.notes[0] == "on 3 CPUs"
    assert re.fullmatch(r"on 3 CPUs, \d+ lost with workers", progress.notes[-1])


def test_a_part_that_always_kills_its_worker_ends_the_training(engine, monkeypatch):
    monkeypatch.setattr(flight, "_MOST_KILLED", 2)
    with pytest.raises(TrainingError, match="lost 2 times with workers"):
        mapped(engine, lambda shared, part: os.kill(os.getpid(), signal.SIGKILL), [1])


def test_results_wait_in_the_checkpoint_where_they_are_too_many_for_memory(engine, tmp_path, monkeypatch):
    held = []
    hold = flight.Flight._hold

    def watched(self, *arguments, **options):
        hold(self, *arguments, **options)
        held.append(sum(arrays is not None for arrays in self._found.values()))

    monkeypatch.setattr(flight.Flight, "_hold", watched)
    monkeypatch.setattr(flight, "_HELD", 100)  # a dozen numbers
    folder = tmp_path / "partial"
    for resume in (False, True):
        checkpoint = Checkpoint(folder, resume=resume)
        checkpoint.open({})
        found = mapped(engine, lambda shared, part: {"x": np.array(part)}, range(60), checkpoint=checkpoint)
        assert found == list(range(60))
        checkpoint._unlock()
    assert max(held) == 12


def test_arrays_beyond_the_object_store_spill(engine):
    sizes = (STORE, STORE, 3 * STORE // 2)  # each fills the store of a node, the last is larger
    shared = [np.full(size // 8, number, np.float64) for number, size in enumerate(sizes)]
    found = mapped(engine, lambda shared, part: {"x": shared[part][-1:]}, [0, 1, 2, 0], shared)
    assert found == [[0], [1], [2], [0]]


def test_results_beyond_the_object_store_spill(engine):
    found = mapped(engine, lambda shared, part: {"x": np.full(3 * STORE // 16, part, np.float64)}, [1, 2])
    assert [(len(values), values[-1]) for values in found] == [(3 * STORE // 16, 1), (3 * STORE // 16, 2)]


def test_a_node_that_is_lost_costs_only_its_parts(engine, cluster):
    def slow(shared, part):
        time.sleep(0.3)
        return {"x": np.array(part)}

    lost = cluster.add_node(num_cpus=2, object_store_memory=STORE)
    until(lambda: ray.cluster_resources().get("CPU") == 5, "the node did not come")
    remover = threading.Timer(3, lambda: cluster.remove_node(lost, allow_graceful=False))
    remover.start()
    assert mapped(engine, slow, range(100)) == list(range(100))
    remover.join()


def test_a_model_survives_twenty_killed_workers_and_a_lost_node(engine, cluster):
    X, Y = small(2_000, 3_000)
    session, killed, ended = cluster.head_node.get_session_dir_path(), [], threading.Event()
    lost = cluster.add_node(num_cpus=1, object_store_memory=STORE)
    until(lambda: ray.cluster_resources().get("CPU") == 4, "the node did not come")

    def kill() -> None:
        while len(killed) < 20 and not ended.is_set():
            for pid in workers_of(session)[:1]:
                os.kill(pid, signal.SIGKILL)
                killed.append(pid)
            if len(killed) == 10 and lost in cluster.worker_nodes:
                cluster.remove_node(lost, allow_graceful=False)
            time.sleep(0.1)

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        found = DiSMEC().fit(X, Y, run=Run(engine=engine))
    finally:
        ended.set()
        killer.join()
    assert len(killed) == 20
    assert lost not in cluster.worker_nodes
    assert_same(found, DiSMEC().fit(X, Y))


def test_a_model_whose_driver_was_killed_is_resumed(cluster, tmp_path):
    X, Y = small(2_000, 3_000)
    write_dataset(Dataset(Y, X=X), tmp_path / "data")
    command = [sys.executable, "-m", "longtail.app.cli", "train", str(tmp_path / "data"), "--model", "dismec"]
    command += ["--out", str(tmp_path / "m"), "--ray", cluster.address, "--calibrate", "no"]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as driver:
        until(lambda: any(tmp_path.glob("m.partial/*.safetensors")), "no part was finished")
        driver.kill()
    assert not (tmp_path / "m").exists()
    done = subprocess.run([*command, "--resume"], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert "nothing to resume" not in done.stderr
    assert_same(load_model(tmp_path / "m"), DiSMEC().fit(X, Y))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data", "m"]


def test_features_of_texts_are_made_on_the_cluster(engine):
    data = planted(150, 0)
    found = TextPipeline(model=DiSMEC()).fit(data.texts, data.Y, run=Run(engine=engine))
    assert_same(found, TextPipeline(model=DiSMEC()).fit(data.texts, data.Y))


DRIVER = """
import sys, time
import numpy as np
from longtail.core.checkpoint import Checkpoint
from longtail.core.checkpoint import Checkpoint
from longtail.core.progress import Silent
from longtail.core.run import Run
from longtail.engine.ray import RayEngine

def slow(shared, part):
    open(f"{shared}/computed-{part}", "a").write("x")
    time.sleep(0.5)
    return {"x": np.array(part)}

address, folder, resume = sys.argv[1:]
checkpoint = Checkpoint(f"{folder}/partial", resume=resume == "resume")
checkpoint.open({})
with RayEngine(address) as engine:
    run = Run(checkpoint=checkpoint, engine=engine)
    with run.map(slow, range(12), shared=folder, name="p", title="parts") as found:
        print(sum(int(arrays["x"]) for arrays in found))
"""


def test_a_killed_driver_goes_on_where_its_checkpoint_ends(cluster, tmp_path):
    (tmp_path / "driver.py").write_text(DRIVER)
    command = [sys.executable, str(tmp_path / "driver.py"), cluster.address, str(tmp_path)]
    with subprocess.Popen([*command, "new"]) as driver:
        until(lambda: len(list(tmp_path.glob("partial/*.safetensors"))) >= 3, "no part was finished")
        driver.kill()
    kept = {int(file.stem[2:]) for file in tmp_path.glob("partial/*.safetensors")}
    done = subprocess.run([*command, "resume"], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.strip() == str(sum(range(12)))
    assert all((tmp_path / f"computed-{part}").read_text() == "x" for part in kept)


def test_the_command_line_trains_predicts_and_tunes_on_a_cluster(engine, cluster, tmp_path, monkeypatch):
    X, Y = small()
    write_dataset(Dataset(Y, X=X), tmp_path / "data")
    monkeypatch.chdir(tmp_path)
    on_ray = ("--ray", cluster.address)
    for command in (
        ("train", "data", "--model", "dismec", "--out", "m", *on_ray),
        ("predict", "m", "data", "--out", "here.npz"),
        ("predict", "m", "data", "--out", "there.npz", *on_ray),
        ("tune", "data", "--model", "bonsai", "--trials", "1", "--study", "there.log", "--pick", "price", *on_ray),
        ("tune", "data", "--model", "bonsai", "--trials", "1", "--study", "here.log", "--pick", "price"),
    ):
        monkeypatch.setattr(sys, "argv", ["longtail", *command])
        with pytest.raises(SystemExit) as stop:
            main()
        assert not stop.value.code, command
    assert_same(load_model(tmp_path / "m"), DiSMEC().fit(X, Y))
    here, there = np.load("here.npz"), np.load("there.npz")
    np.testing.assert_array_equal(here["labels"], there["labels"])
    np.testing.assert_array_equal(here["scores"], there["scores"])
    assert Path("here.toml").read_text().replace("here", "there") == Path("there.toml").read_text()
