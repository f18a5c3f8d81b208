"""Threads, checkpoints, fingerprints."""

from __future__ import annotations

import shutil
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from longtail.core.checkpoint import Checkpoint
from longtail.core.fingerprint import fingerprint
from longtail.core.threads import each_in_threads, in_threads, thread_count
from longtail.errors import OutputError, ParameterError


@pytest.mark.parametrize("n_jobs", [1, 2, 5])
def test_results_keep_the_order_of_the_items(n_jobs):
    def work(item: int) -> int:
        time.sleep(0.002 * (item % 3))
        return item * item

    with in_threads(work, range(20), n_jobs=n_jobs) as results:
        assert list(results) == [i * i for i in range(20)]


def test_items_really_run_side_by_side():
    meeting = threading.Barrier(2, timeout=10)
    with in_threads(lambda _: meeting.wait(), range(2), n_jobs=2) as results:
        assert sorted(results) == [0, 1]


@pytest.mark.parametrize("n_items", [0, 1, 7])
def test_each_item_is_worked_on_once(n_items):
    done: list[int] = []
    each_in_threads(done.append, range(n_items), n_jobs=3)
    assert sorted(done) == list(range(n_items))


def test_only_a_few_items_are_under_way_at_once():
    taken: list[int] = []

    def items():
        for i in range(50):
            taken.append(i)
            yield i

    with in_threads(lambda item: item, items(), n_jobs=2) as results:
        next(results)
        assert len(taken) <= 5
    assert len(taken) <= 5


@pytest.mark.parametrize("error", [ValueError("item 3"), KeyboardInterrupt()])
@pytest.mark.parametrize("n_jobs", [1, 3])
def test_an_error_or_interrupt_in_the_work_ends_it_and_drops_the_rest(error, n_jobs):
    started: list[int] = []
    before = threading.active_count()  # other tests' libraries may have left some of their own

    def work(item: int) -> int:
        started.append(item)
        if item == 3:
            raise error
        return item

    with pytest.raises(type(error)), in_threads(work, range(1000), n_jobs=n_jobs) as results:
        list(results)
    assert len(started) < 30
    assert threading.active_count() == before


def test_an_interrupt_of_the_caller_waits_for_the_threads():
    before = threading.active_count()

    def interrupted() -> None:
        with in_threads(lambda item: time.sleep(0.01), range(1000), n_jobs=2) as results:
            for _ in results:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as kept:  # with the traceback, whose frames hold the results
        interrupted()
    assert threading.active_count() == before
    del kept


@pytest.mark.parametrize("n_jobs", [0, -2, 1.5, "2", True])
def test_a_thread_count_that_makes_no_sense_is_refused(n_jobs):
    with pytest.raises(ParameterError, match="n_jobs"):
        thread_count(n_jobs)


def test_all_cores_by_default():
    assert thread_count(None) == thread_count(-1) >= 1
    assert thread_count(3) == 3


JOB = {"class": "dismec", "C": 1.0}


def test_finished_parts_are_found_again_by_the_same_job(tmp_path):
    first = Checkpoint(tmp_path / "m.partial", resume=False)
    first.open(JOB)
    assert first.get("0-100") is None
    first.put("0-100", {"w": np.arange(3.0)})

    second = Checkpoint(tmp_path / "m.partial", resume=True)
    second.open(JOB)
    np.testing.assert_array_equal(second.get("0-100")["w"], np.arange(3.0))
    second.clear()
    assert not (tmp_path / "m.partial").exists()


def test_without_resume_the_folder_starts_empty(tmp_path):
    first = Checkpoint(tmp_path / "m.partial", resume=False)
    first.open(JOB)
    first.put("a", {"w": np.ones(1)})
    again = Checkpoint(tmp_path / "m.partial", resume=False)
    again.open(JOB)
    assert again.get("a") is None


def test_another_jobs_parts_are_refused_and_kept(tmp_path):
    first = Checkpoint(tmp_path / "m.partial", resume=False)
    first.open(JOB)
    first.put("a", {"w": np.ones(1)})
    other = Checkpoint(tmp_path / "m.partial", resume=True)
    with pytest.raises(OutputError, match="other data, parameters or versions"):
        other.open(JOB | {"C": 2.0})
    other.clear()
    assert first.get("a") is not None


@pytest.mark.parametrize("resume", [False, True])
def test_a_foreign_folder_is_refused_and_never_removed(tmp_path, resume):
    folder = tmp_path / "m.partial"
    folder.mkdir()
    (folder / "thesis.txt").write_text("precious")
    checkpoint = Checkpoint(folder, resume=resume)
    with pytest.raises(OutputError, match="is not a folder of unfinished work"):
        checkpoint.open(JOB)
    checkpoint.clear()
    assert (folder / "thesis.txt").read_text() == "precious"


def test_a_run_that_is_still_at_work_is_not_disturbed(tmp_path):
    folder = tmp_path / "m.partial"
    mine = Checkpoint(folder, resume=False)
    mine.open(JOB)
    mine.put("a", {"w": np.ones(1)})
    script = (
        "import sys\nfrom longtail.core.checkpoint import Checkpoint\n"
        "Checkpoint(sys.argv[1], resume=sys.argv[2] == 'True').open({'class': 'dismec', 'C': 1.0})\n"
    )
    for resume in (False, True):
        other = subprocess.run(
            [sys.executable, "-c", script, str(folder), str(resume)], capture_output=True, text=True, check=False
        )
        assert "in use by another run" in other.stderr
    assert mine.get("a") is not None
    mine.clear()
    assert not folder.exists()


def test_a_folder_that_vanishes_while_work_goes_on_is_an_output_error(tmp_path):
    checkpoint = Checkpoint(tmp_path / "m.partial", resume=False)
    checkpoint.open(JOB)
    shutil.rmtree(tmp_path / "m.partial")
    with pytest.raises(OutputError, match="could not be written"):
        checkpoint.put("a", {"w": np.ones(1)})


def test_parts_of_another_version_are_refused(tmp_path, monkeypatch):
    Checkpoint(tmp_path / "m.partial", resume=False).open(JOB)
    monkeypatch.setattr("longtail.__version__", "999")
    with pytest.raises(OutputError, match="versions"):
        Checkpoint(tmp_path / "m.partial", resume=True).open(JOB)


def test_a_damaged_part_counts_as_unfinished(tmp_path):
    checkpoint = Checkpoint(tmp_path / "m.partial", resume=True)
    checkpoint.open(JOB)
    checkpoint.put("a", {"w": np.ones(100)})
    file = tmp_path / "m.partial" / "a.safetensors"
    file.write_bytes(file.read_bytes()[:50])
    assert checkpoint.get("a") is None


@pytest.mark.parametrize("place", ["first value", "last value", "name"])
def test_a_part_with_a_changed_byte_is_made_again_and_named(tmp_path, caplog, place):
    checkpoint = Checkpoint(tmp_path / "m.partial", resume=True)
    checkpoint.open(JOB)
    checkpoint.put("tree-0003", {"w": np.arange(5.0), "empty": np.empty((0, 2), np.int32), "one": np.array(7)})
    file = tmp_path / "m.partial" / "tree-0003.safetensors"
    whole = file.read_bytes()
    at = {"first value": whole.index(np.arange(5.0).tobytes()), "last value": -1, "name": whole.index(b'"w"') + 1}
    changed = bytearray(whole)
    changed[at[place]] ^= 1
    file.write_bytes(bytes(changed))
    with caplog.at_level("WARNING"):
        assert checkpoint.get("tree-0003") is None
    assert "tree-0003.safetensors is damaged" in caplog.text
    file.write_bytes(whole)
    np.testing.assert_array_equal(checkpoint.get("tree-0003")["w"], np.arange(5.0))
    assert checkpoint.get("tree-0003")["one"].shape == ()


def test_a_fingerprint_tells_contents_types_and_shapes_apart():
    prints = [
        fingerprint(np.arange(4)),
        fingerprint(np.arange(4, dtype=np.int32)),
        fingerprint(np.arange(4).reshape(2, 2)),
        fingerprint(np.array([0, 1, 2, 4])),
    ]
    assert len(set(prints)) == 4
    assert fingerprint(np.arange(8)[::2]) == fingerprint(np.array([0, 2, 4, 6]))


def test_unfinished_work_that_is_thrown_away_is_mentioned(tmp_path, caplog):
    first = Checkpoint(tmp_path / "m.partial", resume=False)
    first.open({"job": 1})
    first._unlock()
    with caplog.at_level("WARNING"):
        Checkpoint(tmp_path / "m.partial", resume=False).open({"job": 1})
    assert "starting over" in caplog.text
