"""How a command ends: exit codes, one line, and nothing left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import numpy as np
import pytest

import longtail
from app.test_interrupt import parts, start, stop_after_the_first_part
from longtail.app.cli import main

LONGTAIL = [sys.executable, "-c", "from longtail.app.cli import main; main()"]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "train"
    made = longtail.make_longtail(n_points=4000, n_features=3000, n_labels=3000, n_test_points=10)
    longtail.write_dataset(made.train, path)
    return path


def test_a_system_that_stops_the_process_keeps_the_finished_parts(data, tmp_path):
    code, out, err = stop_after_the_first_part(start(data, tmp_path), tmp_path, signal.SIGTERM)
    assert (code, out) == (143, "")
    assert err.startswith(
        f"interrupted; finished parts are kept in {tmp_path / 'm.partial'}: the same command with --resume"
    )
    assert err.endswith("delete that folder\nstopped by SIGTERM\n")
    assert parts(tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == ["m.partial"]


def test_a_terminal_that_closes(tmp_path, monkeypatch, capsys):
    def closing(*arguments, **options):
        os.kill(os.getpid(), signal.SIGHUP)
        raise longtail.errors.DataError("nobody reads this")

    monkeypatch.setattr("longtail.data.read_dataset", closing)
    train = ("train", "a.txt", "--model", "popularity", "--out", tmp_path / "m")
    assert ended(monkeypatch, capsys, *train) == (129, "stopped by SIGHUP\n")
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_DFL
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup does
    try:
        assert ended(monkeypatch, capsys, *train) == (2, "error: nobody reads this\n")
    finally:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.mark.parametrize(
    ("redirection", "code", "message"),
    [
        (">/dev/full", 2, "error: stdout could not be written (No space left on device)\n"),
        (">&-", 2, "error: stdout is closed, so the result cannot be shown\n"),
        ("> >(exec true); ", 141, ""),
    ],
)
@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["predict", "m", "a.txt", "--out", "-"]])
def test_a_stdout_that_takes_nothing(tmp_path, redirection, code, message, arguments):
    (tmp_path / "a.txt").write_text("0 0:1\n1 1:1\n")
    longtail.Popularity().fit(np.eye(2, dtype=np.float32), [[0], [1]]).save(tmp_path / "m")
    # The reader of the pipe must be gone before anything is written.
    script = f'cd "$0"; {{ sleep 0.1; "$@"; }} {redirection}'
    done = subprocess.run(
        ["bash", "-c", script, str(tmp_path), *LONGTAIL, *arguments], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (code, message)


def test_a_closed_stdout_is_no_reason_not_to_write_files(tmp_path):
    (tmp_path / "data.txt").write_text("0 0:1\n1 0:1\n")
    script = 'cd "$0"; "$@" >&- 2>&- <&-'
    arguments = ["convert", "data.txt", "d.X.npz"]
    done = subprocess.run(["bash", "-c", script, str(tmp_path), *LONGTAIL, *arguments], check=False)
    assert done.returncode == 0
    assert longtail.read_dataset(tmp_path / "d.X.npz").n_points == 2


def ended(monkeypatch, capsys, *arguments):
    monkeypatch.setattr(sys, "argv", ["longtail", *map(str, arguments)])
    with pytest.raises(SystemExit) as end:
        main()
    return end.value.code, capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (MemoryError("Unable to allocate 9 GiB\nmore"), 2, "error: too little memory (Unable to allocate 9 GiB); "),
        (OSError(5, "Input/output error", "a.txt"), 2, "error: a.txt: Input/output error\n"),
        (RecursionError("too deep"), 1, "error: unexpected RecursionError: too deep; this is a fault of longtail"),
        (OverflowError(), 1, "error: unexpected OverflowError: OverflowError; this is a fault of longtail"),
    ],
)
def test_every_error_is_one_line(monkeypatch, capsys, error, code, message):
    def fail(*arguments, **options):
        raise error

    monkeypatch.setattr("longtail.data.read_dataset", fail)
    found = ended(monkeypatch, capsys, "info", "a.txt")
    assert found[0] == code
    assert found[1].startswith(message)
    assert found[1].count("\n") == 1
    found = ended(monkeypatch, capsys, "--debug", "info", "a.txt")
    assert found[0] == code
    assert found[1].startswith("Traceback (most recent call last):\n")
    assert f"\n{message}" in found[1]


def test_file_names_that_are_no_text(tmp_path):
    name = os.fsencode(tmp_path) + b"/\xff.txt"
    done = subprocess.run([*LONGTAIL, b"info", name], capture_output=True, check=False)
    assert (done.returncode, done.stderr.count(b"\n")) == (2, 1)
    assert b"\\udcff.txt: does not exist" in done.stderr
