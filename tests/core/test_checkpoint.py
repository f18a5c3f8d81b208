"""Checkpoints: finished parts of one job, kept from every other."""

from __future__ import annotations

import shutil
import subprocess
import sys

import numpy as np
import pytest

from longtail.core.checkpoint import Checkpoint
from longtail.errors import OutputError

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


def test_unfinished_work_that_is_thrown_away_is_mentioned(tmp_path, caplog):
    first = Checkpoint(tmp_path / "m.partial", resume=False)
    first.open({"job": 1})
    first._unlock()
    with caplog.at_level("WARNING"):
        Checkpoint(tmp_path / "m.partial", resume=False).open({"job": 1})
    assert "starting over" in caplog.text


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", b"[" * 100_000])
def test_a_damaged_job_file_is_refused_in_one_line_and_kept(tmp_path, content):
    first = Checkpoint(tmp_path / "m.partial", resume=False)
    first.open(JOB)
    first.put("a", {"w": np.ones(1)})
    first._unlock()
    (tmp_path / "m.partial" / "job.json").write_bytes(content)
    with pytest.raises(OutputError, match=r"job\.json is damaged; start over without --resume"):
        Checkpoint(tmp_path / "m.partial", resume=True).open(JOB)
    assert (tmp_path / "m.partial" / "a.safetensors").is_file()


def test_a_job_that_was_killed_before_its_first_part_says_so(tmp_path, caplog):
    first = Checkpoint(tmp_path / "m.partial", resume=True)
    with caplog.at_level("WARNING"):
        first.open(JOB)
    assert caplog.text == "", "a first run has nothing to say"
    first._unlock()
    with caplog.at_level("WARNING"):
        again = Checkpoint(tmp_path / "m.partial", resume=True)
        again.open(JOB)
        again.part("inner").open(JOB)
    assert caplog.text.count("no finished parts yet; starting from the beginning") == 1
