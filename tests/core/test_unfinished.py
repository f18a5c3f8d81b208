"""What killed processes leave is removed by the next one that writes to the same place; what others write is not."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest

import longtail
from longtail.core import store
from longtail.core.checkpoint import Checkpoint
from longtail.core.state import State
from longtail.core.unfinished import remove_dead_temporaries, temporary_folder, temporary_name, unfinished
from longtail.data import read_dataset, write_dataset
from longtail.errors import OutputError

DATA = longtail.Dataset(Y=[[0], [1]], X=np.eye(2))
# Runs one call and dies by SIGKILL in the middle: when the named function of `os` is called for the n-th time.
KILLED = """
import os, signal, sys
import numpy as np
import longtail
from longtail.core import store
from longtail.core.state import State
call, function, path = sys.argv[1:]
data = longtail.Dataset(Y=[[1], [0]], X=2 * np.eye(2))
real = getattr(os, function)
setattr(os, function, lambda *arguments: os.kill(os.getpid(), signal.SIGKILL))
if call == "model":
    store.write(path, {"kind": "model"}, State({}, {"w": np.ones(1000)}), overwrite=True)
else:
    longtail.write_dataset(data, path, overwrite=True)
"""


def die(call, function, path):
    done = subprocess.run([sys.executable, "-c", KILLED, call, function, str(path)], check=False)
    assert done.returncode == -signal.SIGKILL


def names(folder):
    return sorted(file.name for file in folder.iterdir())


@pytest.mark.parametrize("function", ["fsync", "rename"])
def test_the_next_save_removes_what_a_killed_one_left(tmp_path, function):
    die("model", function, tmp_path / "m")
    assert [name[:3] for name in names(tmp_path)] == [".m."]
    (tmp_path / ".m.notes.tmp").write_text("none of ours")
    (tmp_path / ".mm.01234567.tmp").write_text("none of ours")
    store.write(tmp_path / "m", {"kind": "model"}, State({}, {"w": np.zeros(3)}))
    assert names(tmp_path) == [".m.notes.tmp", ".mm.01234567.tmp", "m"]


@pytest.mark.parametrize("function", ["fsync", "replace"])
def test_the_next_overwrite_removes_what_a_killed_one_left(tmp_path, function):
    state = State({}, {"w": np.zeros(3)})
    store.write(tmp_path / "m", {"kind": "model"}, state)
    die("model", function, tmp_path / "m")
    assert len(names(tmp_path / "m")) > 2
    assert store.read(tmp_path / "m", "model")[1].arrays["w"].size == 3, "the old one is whole"
    store.write(tmp_path / "m", {"kind": "model"}, state, overwrite=True)
    assert len(names(tmp_path / "m")) == 2
    assert names(tmp_path) == ["m"]


def test_the_next_file_removes_what_a_killed_writer_left(tmp_path):
    write_dataset(DATA, tmp_path / "d.X.npz")
    die("data", "replace", tmp_path / "d.X.npz")
    assert len(names(tmp_path)) == 4
    write_dataset(DATA, tmp_path / "d.X.npz", overwrite=True)
    assert names(tmp_path) == ["d.X.npz", "d.Y.npz"]
    assert (read_dataset(tmp_path / "d.X.npz").X != DATA.X).nnz == 0


def test_what_is_being_written_stays(tmp_path):
    path = tmp_path / "m"
    with unfinished(temporary_name(path)) as file, unfinished(temporary_name(path), folder=True) as folder:
        remove_dead_temporaries(path)
        assert file.is_file()
        assert folder.is_dir()
    remove_dead_temporaries(path)
    assert names(tmp_path) == []


def test_links_are_not_followed(tmp_path):
    (tmp_path / "precious").write_text("mine")
    (tmp_path / ".m.01234567.tmp").symlink_to(tmp_path / "precious")
    remove_dead_temporaries(tmp_path / "m")
    assert (tmp_path / "precious").read_text() == "mine"


def test_a_kill_while_finished_work_is_removed_leaves_a_folder_that_can_be_used(tmp_path):
    script = (
        "import os, pathlib, signal, sys\n"
        "import numpy as np\n"
        "from longtail.core.checkpoint import Checkpoint\n"
        "whole = Checkpoint(sys.argv[1], resume=False)\n"
        "whole.open({'a': 1}); part = whole.part('x'); part.open({'b': 1}); part.put('p', {'w': np.ones(3)})\n"
        "whole.put('p', {'w': np.ones(3)})\n"
        "unlink, left = os.unlink, [int(sys.argv[2])]\n"
        "def unlink_some(*arguments, **options):\n"
        "    if not left[0]: os.kill(os.getpid(), signal.SIGKILL)\n"
        "    left[0] -= 1; unlink(*arguments, **options)\n"
        "os.unlink = unlink_some\n"
        "whole.clear()\n"
    )
    for deletions in range(6):
        done = subprocess.run([sys.executable, "-c", script, str(tmp_path / "work"), str(deletions)], check=False)
        assert done.returncode == -signal.SIGKILL
        again = Checkpoint(tmp_path / "work", resume=True)
        again.open({"a": 1})
        again.part("x").open({"b": 1})
        again.clear()
        assert names(tmp_path) == []


def test_a_damaged_job_is_refused(tmp_path):
    work = Checkpoint(tmp_path / "work", resume=False)
    work.open({"a": 1})
    work._unlock()
    (tmp_path / "work" / "job.json").write_bytes(b"\xff\x00")
    with pytest.raises(OutputError, match=r"job\.json is damaged; start over without --resume"):
        Checkpoint(tmp_path / "work", resume=True).open({"a": 1})


def test_places_that_cannot_be_written_are_found_before_the_work(tmp_path):
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(OutputError, match="loop is a symbolic link that leads nowhere"):
        store.check_free(tmp_path / "loop", kind="model")
    with pytest.raises(OutputError, match="loop is a symbolic link that leads nowhere"):
        write_dataset(DATA, tmp_path / "loop", overwrite=True)
    longest = "é" * 118 + "m.txt"  # 241 bytes
    write_dataset(DATA, tmp_path / longest)
    with pytest.raises(OutputError, match="the name has more than 241 bytes"):
        write_dataset(DATA, tmp_path / f"m{longest}")


@pytest.mark.parametrize("kind", ["pipe", "stdout"])
def test_a_device_or_a_pipe_is_not_replaced(kind, tmp_path):
    path = tmp_path / "special.txt"
    if kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to("/proc/self/fd/1")  # as /dev/stdout, which may lead to a regular file
    before = path.lstat()
    with pytest.raises(OutputError, match=r"special\.txt is a device, a pipe or a socket"):
        write_dataset(DATA, path, overwrite=True)
    with pytest.raises(OutputError, match=r"special\.txt is a device, a pipe or a socket"):
        store.check_free(path, kind="model", overwrite=True)
    assert path.lstat().st_ino == before.st_ino


def test_copies_of_a_killed_process_are_removed_by_the_next_one(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    work = "from longtail.core.unfinished import temporary_folder\nwith temporary_folder() as folder:\n"
    work += "    (folder / 'copy').write_text('x')\n    print(folder, flush=True)\n    input()\n"
    with subprocess.Popen(
        [sys.executable, "-c", work], env=os.environ | {"TMPDIR": str(tmp_path)}, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    ) as process:  # fmt: skip
        left = Path(process.stdout.readline().strip())
        foreign = tmp_path / "longtail-folder"
        foreign.mkdir()
        with temporary_folder() as folder:
            assert left.stat().st_mode & 0o777 == folder.stat().st_mode & 0o777 == 0o700
        assert (left / "copy").exists()  # its process is alive
        process.kill()
    with temporary_folder() as folder:
        assert sorted(tmp_path.iterdir()) == sorted([folder, foreign])
    assert list(tmp_path.iterdir()) == [foreign]
