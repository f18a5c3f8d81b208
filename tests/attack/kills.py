"""Kills, full disks and readers during overwrites. What is undisturbed runs in a process of its own, too: a fork of
this one, which has loaded the libraries but not started threads of theirs."""

from __future__ import annotations

import contextlib
import functools
import os
import resource
import signal
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from attack.frame import ATTACKS, Attack, Finding, Waited, attack, tally
from attack.victims import VARIANTS, in_pieces
from contract.models import NAMES, TRAIN, make
from longtail.core import store
from longtail.core.checkpoint import Checkpoint
from longtail.core.estimator import Estimator
from longtail.core.progress import Silent
from longtail.core.run import Run
from longtail.core.state import State
from longtail.core.workspace import Workspace
from longtail.data import Dataset, read_dataset, write_dataset
from longtail.errors import LongtailError

_LIMIT_S = 120.0
_COMPILE_S = 900.0  # a first training, which compiles kernels
_REFUSED = 7


def fork(work: Callable[[], None], says: Path | None = None) -> int:
    """Run `work` in a fork and return its process id; an error of longtail is exit code 7, another one 1.

    The error is written to the file `says`.
    """
    child = os.fork()
    if child:
        return child
    code = 1
    with contextlib.suppress(BaseException):
        try:
            work()
            code = 0
        except BaseException as error:
            code = _REFUSED if isinstance(error, LongtailError) else 1
            if says is not None:
                says.write_text(traceback.format_exc())
    os._exit(code)


def end_of(child: int, seconds: float = _LIMIT_S) -> int:
    """Return the exit code of a fork, negative for a signal; raise Finding if it hangs."""
    waited = Waited()
    while waited() < seconds:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.002)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    raise Finding(f"no end within {seconds:.0f} s")


def _model(name: str) -> Estimator:
    """Return a model that works in one thread and keeps every step that it can."""
    model = make(name) if name in NAMES else VARIANTS[name]()
    eager = {"n_jobs": 1, "checkpoint_seconds": 0.0}
    return model.set_params(
        **{key: eager[key.rpartition("__")[2]] for key in model.get_params() if key.rpartition("__")[2] in eager}
    )


def _train(name: str, out: Path, *, resume: bool) -> None:
    """Train and save as `longtail train --workspace` does."""
    model = _model(name)
    checkpoint = Checkpoint(out.with_name("m.partial"), resume=resume)
    run = Run(Silent(), checkpoint, workspace=Workspace(out.parent))
    with in_pieces(name):
        model.fit(TRAIN.inputs(model.input_kind), TRAIN.Y, run=run)
        model.save(out, overwrite=True)
    checkpoint.clear()


def _array_files(model: Path) -> list[dict[str, Any]]:
    """Return what the manifest says about each array file."""
    manifest = store.read_manifest(model, "model")
    return [manifest["arrays"], *manifest.get("more_arrays", ())]


def _digests(model: Path) -> list[str]:
    return [entry["sha256"] for entry in _array_files(model)]


@functools.cache
def _undisturbed(name: str) -> tuple[list[str], float]:
    """Return the digests of the arrays of a model that nobody disturbed, and the seconds that it took."""
    _model(name)  # writes the encoder that a text model begins with, once for all forks: its path belongs to the job
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "m"
        end_of(fork(lambda: _train(name, out, resume=False)), _COMPILE_S)
        begin, says = time.monotonic(), Path(folder) / "says.txt"
        code = end_of(fork(lambda: _train(name, out, resume=False), says))
        if code != 0:
            raise Finding(f"{name} cannot be trained: {code} {says.read_text() if says.exists() else ''}")
        return _digests(out), time.monotonic() - begin


def _killed(name: str) -> Attack:
    def attack(rng: np.random.Generator, folder: Path) -> None:
        digests, seconds = _undisturbed(name)
        for resume in (False, True, True):
            child = fork(functools.partial(_train, name, folder / "m", resume=resume))
            time.sleep(float(rng.random()) * seconds)
            os.kill(child, signal.SIGKILL)
            tally("killed trainings", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL)
        says = folder / "says.txt"
        code = end_of(fork(lambda: _train(name, folder / "m", resume=True), says))
        if code != 0:
            said = says.read_text() if says.exists() else ""
            raise Finding(f"the resumed training ended with {code}\n{said}")
        if _digests(folder / "m") != digests:
            raise Finding("another model than without the kills")
        left = sorted(str(file.relative_to(folder)) for file in folder.rglob("*"))
        if left != sorted(["m", "m/manifest.json", *(f"m/{entry['file']}" for entry in _array_files(folder / "m"))]):
            raise Finding(f"left behind: {left}")

    return attack


for _name in [*NAMES, *VARIANTS]:
    ATTACKS[f"kills/{_name}"] = _killed(_name)


def _state(value: int) -> State:
    return State({"value": value}, {"w": np.full(20_000, value)})


def _data(value: int) -> Dataset:
    return Dataset(Y=np.full((2000, 1), 1), X=np.random.default_rng(value).random((2000, 5)))


@attack("disks/full")
def full_disk(rng: np.random.Generator, folder: Path) -> None:
    """Writes that fail at a random byte leave what was there; the next one removes what they left."""
    store.write(folder / "m", {"kind": "model"}, _state(1))
    write_dataset(_data(1), folder / "d.X.npz")
    limit = int(rng.integers(1, 200_000))

    def write() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        if rng.random() < 0.5:
            store.write(folder / "m", {"kind": "model"}, _state(2), overwrite=True)
        else:
            write_dataset(_data(2), folder / "d.X.npz", overwrite=True)

    code = end_of(fork(write))
    if code not in (0, _REFUSED):
        raise Finding(f"a full disk ended with {code}")
    values = store.read(folder / "m", "model")[1].arrays["w"]
    if not (values == values[0]).all() or (code == _REFUSED and values[0] != 1):
        raise Finding("a model that is neither the old nor the new one")
    read_dataset(folder / "d.X.npz")
    left = sorted(str(file.relative_to(folder)) for file in folder.rglob("*"))
    if len(left) != 5:
        raise Finding(f"left behind: {left}")


@attack("loads/overwrites")
def loads_during_overwrites(rng: np.random.Generator, folder: Path) -> None:
    """A reader always finds a whole model and a pair of files that belong together."""
    del rng
    store.write(folder / "m", {"kind": "model"}, _state(0))
    write_dataset(_data(0), folder / "d.X.npz")
    known = {_data(value).X.data.tobytes() for value in range(3)}

    def overwrite() -> None:
        for value in (1, 2) * 10:
            store.write(folder / "m", {"kind": "model"}, _state(value), overwrite=True)
            write_dataset(_data(value), folder / "d.X.npz", overwrite=True)

    child = fork(overwrite)
    ended = 0
    try:
        while not ended:
            ended, status = os.waitpid(child, os.WNOHANG)
            state = store.read(folder / "m", "model")[1]
            if not (state.arrays["w"] == state.values["value"]).all():
                raise Finding("a model of two models")
            if read_dataset(folder / "d.X.npz").X.data.tobytes() not in known:
                raise Finding("features of two datasets")
    except LongtailError as error:
        raise Finding(f"a reader was refused: {error}") from error
    finally:
        if not ended:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
    if os.waitstatus_to_exitcode(status) != 0:
        raise Finding("the writer failed")
