"""Ctrl-C and kill in the middle of training: what is left, and how it goes on."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import longtail
from longtail.app.cli import main

# A runner may start us with Ctrl-C ignored, which a child process would inherit; a terminal does not.
RUN = (
    "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\nfrom longtail.app.cli import main; main()"
)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Training data that keep one thread busy for a while."""
    path = tmp_path_factory.mktemp("data") / "train"
    made = longtail.make_longtail(n_points=4000, n_features=3000, n_labels=3000, n_test_points=10)
    longtail.write_dataset(made.train, path)
    return path


def start(data, folder, *options):
    arguments = ["train", data, "--model", "dismec", "--out", folder / "m", "--threads", "1", *options]
    return subprocess.Popen(
        [sys.executable, "-c", RUN, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def stop_after_the_first_part(process, folder, how):
    """Send the signal as soon as a new finished part is on disk; the training must not be over by then."""
    until = time.monotonic() + 60
    before = parts(folder)
    try:
        while parts(folder) <= before:
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < until
            time.sleep(0.002)
        process.send_signal(how)
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
    return process.returncode, out, err


def parts(folder):
    return {file.name for file in (folder / "m.partial").glob("*.safetensors")}


def test_ctrl_c_keeps_finished_parts_and_says_how_to_go_on(data, tmp_path):
    code, out, err = stop_after_the_first_part(start(data, tmp_path), tmp_path, signal.SIGINT)
    assert code == 130, err
    assert (out, err) == (
        "",
        f"interrupted; finished parts are kept in {tmp_path / 'm.partial'}: the same command with --resume continues "
        "from there; to discard them, delete that folder\n",
    )
    assert [file.name for file in tmp_path.iterdir()] == ["m.partial"]
    done = start(data, tmp_path, "--resume")
    assert done.communicate(timeout=120)[0] == ""
    assert done.returncode == 0
    assert [file.name for file in tmp_path.iterdir()] == ["m"]


def interrupted_kernel(*arguments, **options):
    """What Numba makes of a Ctrl-C that comes while results of a kernel become Python's."""
    error: BaseException = KeyboardInterrupt()
    for function in ("_numba_unpickle", "CPUDispatcher(...)"):
        try:
            raise SystemError(f"{function} returned a result with an exception set") from error
        except SystemError as wrapped:
            error = wrapped
    raise error


def test_ctrl_c_within_a_kernel_is_ctrl_c(data, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("longtail.linear.solver.BlockSolver.train", interrupted_kernel)
    with pytest.raises(KeyboardInterrupt):
        longtail.DiSMEC(n_jobs=1).fit(np.eye(3), [[0], [1], [2]])
    reranked = longtail.PropensityRerank(base=longtail.Popularity(), folds=2).fit(np.eye(9), [[0], [0, 1], [0]] * 3)
    monkeypatch.setattr("longtail.compose.reranker.best_of", interrupted_kernel)
    with pytest.raises(KeyboardInterrupt):
        reranked.predict(np.eye(9), k=1)
    arguments = ["train", data, "--model", "dismec", "--out", tmp_path / "m", "--threads", "1"]
    monkeypatch.setattr(sys, "argv", ["longtail", *map(str, arguments)])
    with pytest.raises(SystemExit) as stop:
        main()
    assert (stop.value.code, list(tmp_path.iterdir())) == (130, [])
    assert "interrupted; no part was finished, and nothing was kept" in capsys.readouterr().err

    monkeypatch.setattr("longtail.data.read_dataset", interrupted_kernel)  # before the work, and not in `fit`
    with pytest.raises(SystemExit) as stop:
        main()
    assert stop.value.code == 130

    monkeypatch.setattr("longtail.data.read_dataset", lambda *_, **__: (_ for _ in ()).throw(SystemError("a fault")))
    with pytest.raises(SystemExit) as stop:
        main()
    assert stop.value.code == 1
    assert "unexpected SystemError: a fault" in capsys.readouterr().err


def test_a_killed_training_goes_on_where_it_was(data, tmp_path):
    code, _, _ = stop_after_the_first_part(start(data, tmp_path), tmp_path, signal.SIGKILL)
    assert code == -signal.SIGKILL
    kept = parts(tmp_path)
    assert not (tmp_path / "m").exists()

    other = start(data, tmp_path, "--resume", "--set", "C=3")
    _, err = other.communicate(timeout=60)
    assert other.returncode == 2
    assert "other data, parameters or versions" in err
    assert parts(tmp_path) == kept

    code, _, err = stop_after_the_first_part(start(data, tmp_path, "--resume"), tmp_path, signal.SIGINT)
    assert code == 130, err
    assert "finished parts are kept in" in err
    assert parts(tmp_path) >= kept

    done = start(data, tmp_path, "--resume")
    _, err = done.communicate(timeout=120)
    assert done.returncode == 0, err
    assert [file.name for file in tmp_path.iterdir()] == ["m"]
    points = longtail.read_dataset(data)
    once = longtail.DiSMEC(n_jobs=1).fit(points.X, points.Y).predict(points.X[:200])
    resumed = longtail.load_model(tmp_path / "m").predict(points.X[:200])
    np.testing.assert_array_equal(resumed.labels, once.labels)
    np.testing.assert_array_equal(resumed.scores, once.scores)
