"""A directory with several array files: whole or not at all, every file checked, and one file where that is enough."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import numpy as np
import pytest

from core.test_store import HEADER, STEPS, break_at
from longtail.core import store
from longtail.core.array_file import in_files
from longtail.core.state import State
from longtail.errors import ModelError, OutputError


@pytest.fixture(autouse=True)
def small_files(monkeypatch):
    monkeypatch.setattr(store, "_FILE_BYTES", 100)


def state_of(value: float, n_arrays: int = 4) -> State:
    arrays = {f"part-{i}/w": np.full(20, value + i, np.float32) for i in range(n_arrays)}
    return State({"value": value}, arrays)


def value_at(path: Path) -> float:
    _, state = store.read(path, "model")
    for i, array in enumerate(state.arrays.values()):
        assert (array == state.values["value"] + i).all()
    return float(state.values["value"])


def array_files(path: Path) -> list[str]:
    return sorted(file.name for file in path.glob("arrays-*"))


def resign(path: Path, change) -> None:
    manifest = json.loads((path / "manifest.json").read_bytes())
    change(manifest)
    manifest["sha256"] = store.json_digest(manifest)
    (path / "manifest.json").write_text(json.dumps(manifest))


def test_arrays_are_divided_in_their_order():
    arrays = {name: np.zeros(size, np.uint8) for name, size in (("a", 60), ("b", 40), ("c", 1), ("d", 500), ("e", 2))}
    assert [list(part) for part in in_files(arrays, 100)] == [["a", "b"], ["c"], ["d"], ["e"]]
    assert in_files({}, 100) == [{}]


def test_every_array_comes_back_and_the_format_says_so(tmp_path):
    store.write(tmp_path / "m", HEADER, state_of(1))
    manifest = store.read_manifest(tmp_path / "m", "model")
    assert manifest["format"] == 3
    assert len(manifest["more_arrays"]) == 3
    assert len(array_files(tmp_path / "m")) == 4
    assert value_at(tmp_path / "m") == 1
    assert list(store.read(tmp_path / "m", "model", mmap=False)[1].arrays) == [f"part-{i}/w" for i in range(4)]


def test_overwriting_leaves_only_the_files_of_the_new_model(tmp_path):
    for n_arrays, n_files in ((4, 4), (1, 1), (3, 3)):
        store.write(tmp_path / "m", HEADER, state_of(n_arrays, n_arrays), overwrite=True)
        assert value_at(tmp_path / "m") == n_arrays
        assert len(array_files(tmp_path / "m")) == n_files
        assert store.read_manifest(tmp_path / "m", "model")["format"] == (2 if n_files == 1 else 3)


@pytest.mark.parametrize("step", STEPS[1:-1])
def test_a_failure_at_any_step_of_an_overwrite_leaves_the_old_model(tmp_path, monkeypatch, step):
    store.write(tmp_path / "m", HEADER, state_of(1))
    before = array_files(tmp_path / "m")
    with monkeypatch.context() as patch:
        break_at(step, patch, OSError(28, "No space left on device"))
        with pytest.raises(OutputError):
            store.write(tmp_path / "m", HEADER, state_of(2), overwrite=True)
    assert value_at(tmp_path / "m") == 1
    assert array_files(tmp_path / "m") == before


def test_a_failure_in_the_last_file_leaves_nothing(tmp_path, monkeypatch):
    real, calls = store.write_arrays, []

    def fail_last(file, arrays):
        calls.append(file)
        if len(calls) == 4:
            raise OSError(28, "No space left on device")
        return real(file, arrays)

    monkeypatch.setattr(store, "write_arrays", fail_last)
    with pytest.raises(OutputError, match="No space left"):
        store.write(tmp_path / "m", HEADER, state_of(1))
    assert list(tmp_path.iterdir()) == []


def test_damage_and_loss_of_any_file_are_noticed(tmp_path):
    for number in range(4):
        path = tmp_path / f"m{number}"
        store.write(path, HEADER, state_of(1))
        file = path / array_files(path)[number]
        content = file.read_bytes()
        file.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
        with pytest.raises(ModelError, match=f"{file.name} was altered"):
            store.read(path, "model")
        file.unlink()
        with pytest.raises(ModelError, match=f"{file.name} is missing"):
            store.read(path, "model", verify=False)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda manifest: manifest.update(more_arrays=[manifest["arrays"]]), "is in another file, too"),
        (lambda manifest: manifest.update(more_arrays=["x"]), "missing or malformed"),
        (lambda manifest: manifest.update(more_arrays=3), "missing or malformed"),
        (lambda manifest: manifest.update(more_arrays=None), "missing or malformed"),
        (lambda manifest: manifest.update(more_arrays=[]), "'more_arrays' is missing or malformed"),
        (lambda manifest: manifest.pop("more_arrays"), "'more_arrays' is missing or malformed"),
        (lambda manifest: manifest.update(format=2), "'more_arrays' is missing or malformed"),
        (lambda manifest: manifest["more_arrays"][0].pop("sha256"), "'sha256' is missing or malformed"),
        (lambda manifest: manifest["more_arrays"][1].update(file="../manifest.json"), "outside the directory"),
    ],
)
def test_malformed_lists_of_files_are_model_errors(tmp_path, change, said):
    store.write(tmp_path / "m", HEADER, state_of(1))
    resign(tmp_path / "m", change)
    with pytest.raises(ModelError, match=said):
        store.read(tmp_path / "m", "model")


def test_a_writer_and_a_reader_always_find_a_whole_model(tmp_path):
    store.write(tmp_path / "m", HEADER, state_of(0))
    failures: list[BaseException] = []

    def write_often() -> None:
        try:
            for value in range(30):
                store.write(tmp_path / "m", HEADER, state_of(value, 2 + value % 3), overwrite=True)
        except BaseException as error:
            failures.append(error)

    writer = threading.Thread(target=write_often)
    writer.start()
    while writer.is_alive():
        value_at(tmp_path / "m")
    writer.join()
    assert not failures
