"""The model directory: whole or not at all, and nothing altered is read."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy
from scipy import sparse

from longtail.core import store
from longtail.core.array_file import _DTYPES
from longtail.core.state import State, as_bytes, from_bytes
from longtail.errors import ModelError, OutputError

HEADER = {"kind": "model"}


def state_of(value: float, size: int = 10) -> State:
    return State({"value": value, "nested": {"a": [1, 2]}}, {"weights": np.full(size, value, np.float32)})


def value_at(path: Path) -> float:
    _, state = store.read(path, "model")
    assert (state.arrays["weights"] == state.values["value"]).all()
    return float(state.values["value"])


def test_every_kind_of_array_comes_back_mapped_and_equal(tmp_path):
    arrays = {
        "f32": np.linspace(0, 1, 6, dtype=np.float32).reshape(2, 3),
        "i64": np.array([2**40, -1]),
        "bool": np.array([True, False, True]),
        "u8": np.arange(5, dtype=np.uint8),
        "empty": np.empty((0, 4), np.float64),
        "f16": np.array([1.5], np.float16),
        "transposed": np.arange(6, dtype=np.int32).reshape(2, 3).T,
    }
    store.write(tmp_path / "m", HEADER, State({}, arrays))
    _, state = store.read(tmp_path / "m", "model")
    assert state.arrays.keys() == arrays.keys()
    for name, array in arrays.items():
        assert state.arrays[name].dtype == array.dtype
        np.testing.assert_array_equal(state.arrays[name], array)
    with pytest.raises(ValueError, match="read-only"):
        state.arrays["i64"][0] = 0


def test_nested_states_and_sparse_matrices_come_back(tmp_path):
    inner = State({"name": "ä"})
    matrix = sparse.random(7, 5, density=0.4, format="csr", random_state=0, dtype=np.float32)
    inner.put_csr("W", matrix)
    outer = State()
    outer.nest("part", inner)
    store.write(tmp_path / "m", HEADER, outer)
    part = store.read(tmp_path / "m", "model")[1].part("part")
    assert part.values["name"] == "ä"
    assert (part.get_csr("W") != matrix).nnz == 0


def test_strings_as_bytes_come_back():
    strings = ["", "plain", "ünïcödé", "日本", ""]
    assert from_bytes(*as_bytes(strings)) == strings
    assert from_bytes(*as_bytes([])) == []


def test_an_existing_model_is_only_replaced_when_asked(tmp_path):
    store.write(tmp_path / "m", HEADER, state_of(1))
    with pytest.raises(OutputError, match="overwrite"):
        store.write(tmp_path / "m", HEADER, state_of(2))
    assert value_at(tmp_path / "m") == 1
    store.write(tmp_path / "m", HEADER, state_of(2), overwrite=True)
    assert value_at(tmp_path / "m") == 2
    assert len(list((tmp_path / "m").iterdir())) == 2, "the old array file is gone"


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_folder_that_is_none_of_ours_is_never_touched(tmp_path, overwrite):
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / "thesis.txt").write_text("precious")
    with pytest.raises(OutputError, match="was not written by longtail; choose another output path"):
        store.write(tmp_path / "m", HEADER, state_of(1), overwrite=overwrite)
    assert [f.name for f in (tmp_path / "m").iterdir()] == ["thesis.txt"]


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_directory_of_another_kind_is_never_replaced(tmp_path, overwrite):
    store.write(tmp_path / "m", HEADER, state_of(1))
    with pytest.raises(OutputError, match="is a model directory, which a dataset cannot replace"):
        store.write(tmp_path / "m", HEADER | {"kind": "dataset"}, state_of(2), overwrite=overwrite)
    assert value_at(tmp_path / "m") == 1


def test_an_empty_folder_may_be_filled_and_a_missing_parent_is_named(tmp_path):
    (tmp_path / "m").mkdir()
    store.write(tmp_path / "m", HEADER, state_of(1))
    assert value_at(tmp_path / "m") == 1
    with pytest.raises(OutputError, match="nowhere does not exist"):
        store.write(tmp_path / "nowhere" / "m", HEADER, state_of(1))


STEPS = ["mkdir", "arrays", "manifest", "replace", "rename"]


def break_at(step: str, monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    """Let the write fail in the middle of one of its steps."""

    def fail(*args, **kwargs):
        raise error

    def half_written(file, *args):
        file.write_bytes(b"half")
        raise error

    targets = {
        "mkdir": (Path, "mkdir", fail),
        "arrays": (store, "write_arrays", half_written),
        "manifest": (store, "write_synced", half_written),
        "replace": (os, "replace", fail),
        "rename": (os, "rename", fail),
    }
    monkeypatch.setattr(*targets[step])


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
@pytest.mark.parametrize("step", STEPS)
def test_a_failure_at_any_step_of_a_new_model_leaves_nothing(tmp_path, monkeypatch, step, error):
    with monkeypatch.context() as patch:
        break_at(step, patch, error)
        with pytest.raises((OutputError, KeyboardInterrupt)):
            store.write(tmp_path / "m", HEADER, state_of(1))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
@pytest.mark.parametrize("step", STEPS[1:-1])
def test_a_failure_at_any_step_of_an_overwrite_leaves_the_old_model(tmp_path, monkeypatch, step, error):
    store.write(tmp_path / "m", HEADER, state_of(1))
    before = sorted(f.name for f in (tmp_path / "m").iterdir())
    with monkeypatch.context() as patch:
        break_at(step, patch, error)
        with pytest.raises((OutputError, KeyboardInterrupt)):
            store.write(tmp_path / "m", HEADER, state_of(2), overwrite=True)
    assert value_at(tmp_path / "m") == 1
    assert sorted(f.name for f in (tmp_path / "m").iterdir()) == before


def test_a_full_disk_is_an_output_error_and_the_old_model_stays(tmp_path):
    """A real failing write: the process may not make files of more than 100 kB."""
    store.write(tmp_path / "m", HEADER, state_of(1))
    script = (
        "import resource, sys, numpy as np\n"
        "from longtail.core import store\n"
        "from longtail.core.state import State\n"
        "from longtail.errors import OutputError\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))\n"
        "state = State({}, {'w': np.ones(10**6)})\n"
        "try: store.write(sys.argv[1], {'kind': 'model', 'format': 1}, state, overwrite=True)\n"
        "except OutputError: sys.exit(7)\n"
    )
    done = subprocess.run([sys.executable, "-c", script, str(tmp_path / "m")], capture_output=True, text=True)
    assert done.returncode == 7, done.stderr
    assert value_at(tmp_path / "m") == 1
    assert len(list((tmp_path / "m").iterdir())) == 2


def test_two_writers_and_a_reader_always_find_a_whole_model(tmp_path):
    path = tmp_path / "m"
    store.write(path, HEADER, state_of(0, 5000))
    failures: list[BaseException] = []

    def write_often(value: float) -> None:
        try:
            for _ in range(25):
                store.write(path, HEADER, state_of(value, 5000), overwrite=True)
        except BaseException as error:
            failures.append(error)

    writers = [threading.Thread(target=write_often, args=(value,)) for value in (1, 2)]
    for writer in writers:
        writer.start()
    while any(writer.is_alive() for writer in writers):
        assert value_at(path) in (0, 1, 2)
    for writer in writers:
        writer.join()
    assert failures == []
    assert value_at(path) in (1, 2)


def test_safetensors_reads_what_is_written(tmp_path):
    arrays = {str(kind): np.arange(5).astype(kind) for kind in _DTYPES.values()}
    arrays |= {"é": np.ones((2, 3), order="F"), "empty": np.zeros((0, 4), np.float32), "single": np.array(3, np.int8)}
    size, digest = store.write_arrays(tmp_path / "a", arrays)
    content = (tmp_path / "a").read_bytes()
    assert (size, digest) == (len(content), store.sha256(tmp_path / "a"))
    found = safetensors.numpy.load_file(tmp_path / "a")
    for name, array in arrays.items():
        np.testing.assert_array_equal(found[name], array, strict=True)
    with pytest.raises(OutputError, match="unsupported type complex128"):
        store.write(tmp_path / "m", HEADER, State({}, {"w": np.ones(3, complex)}))


def array_file(path: Path) -> Path:
    return next(path.glob("*.safetensors"))


def test_an_altered_byte_is_noticed_in_either_file(tmp_path):
    for name in ("arrays", "manifest"):
        path = tmp_path / name
        store.write(path, HEADER, state_of(1))
        file = array_file(path) if name == "arrays" else path / store.MANIFEST
        content = bytearray(file.read_bytes())
        content[-5] ^= 1
        file.write_bytes(content)
        with pytest.raises(ModelError, match="altered"):
            store.read(path, "model")


def test_an_altered_value_in_the_manifest_is_noticed(tmp_path):
    store.write(tmp_path / "m", HEADER, state_of(1))
    file = tmp_path / "m" / store.MANIFEST
    manifest = json.loads(file.read_text())
    file.write_text(json.dumps(manifest))  # other white space is not another manifest
    assert value_at(tmp_path / "m") == 1
    manifest["state"]["value"] = 2
    file.write_text(json.dumps(manifest))
    with pytest.raises(ModelError, match=r"manifest\.json was altered"):
        store.read(tmp_path / "m", "model")


def test_truncated_and_missing_files_are_named(tmp_path):
    path = tmp_path / "m"
    store.write(path, HEADER, state_of(1))
    file = array_file(path)
    content = file.read_bytes()
    file.write_bytes(content[:-1])
    with pytest.raises(ModelError, match=f"{file.name} was altered"):
        store.read(path, "model", verify=False)
    file.unlink()
    with pytest.raises(ModelError, match=f"{file.name} is missing"):
        store.read(path, "model")
    (path / store.MANIFEST).unlink()
    with pytest.raises(ModelError, match=r"manifest\.json is missing"):
        store.read(path, "model")
    with pytest.raises(ModelError, match="is not a model directory"):
        store.read(tmp_path / "nothing", "model")


def rewritten(path: Path, **changes: object) -> None:
    """A manifest with other fields and a digest that fits: what a forger would write."""
    manifest = json.loads((path / store.MANIFEST).read_text()) | changes
    manifest["sha256"] = store.json_digest(manifest)
    (path / store.MANIFEST).write_text(json.dumps(manifest))


@pytest.mark.parametrize("escape", ["../outside.safetensors", "/etc/hostname", ".", "sub/x"])
def test_a_manifest_cannot_point_out_of_its_directory(tmp_path, escape):
    (tmp_path / "outside.safetensors").write_bytes(b"secret")
    path = tmp_path / "m"
    store.write(path, HEADER, state_of(1))
    rewritten(path, arrays={"file": escape, "bytes": 6, "sha256": store.sha256(tmp_path / "outside.safetensors")})
    with pytest.raises(ModelError, match="outside the directory"):
        store.read(path, "model")


@pytest.mark.parametrize("changes", [{"arrays": None}, {"arrays": {"file": 3}}, {"arrays": {}}])
def test_malformed_fields_are_model_errors(tmp_path, changes):
    store.write(tmp_path / "m", HEADER, state_of(1))
    rewritten(tmp_path / "m", **changes)
    with pytest.raises(ModelError, match="missing or malformed"):
        store.read(tmp_path / "m", "model")


def test_kind_and_format_are_checked(tmp_path):
    store.write(tmp_path / "m", HEADER, state_of(1))
    assert store.kind_of(tmp_path / "m") == "model"
    assert store.kind_of(tmp_path) is None
    with pytest.raises(ModelError, match="is a model directory, not a dataset directory"):
        store.read(tmp_path / "m", "dataset")
    for other in (1, 4, None):
        rewritten(tmp_path / "m", format=other)
        with pytest.raises(ModelError, match=f"has format {other}, .* reads format 2; train the model again"):
            store.read(tmp_path / "m", "model")


def test_garbage_in_the_array_file_is_a_model_error(tmp_path):
    path = tmp_path / "m"
    store.write(path, HEADER, state_of(1))
    file = array_file(path)
    for garbage in (b"", b"short", b"\xff" * 64, (8).to_bytes(8, "little") + b"not json"):
        file.write_bytes(garbage)
        rewritten(path, arrays={"file": file.name, "bytes": len(garbage), "sha256": store.sha256(file)})
        with pytest.raises(ModelError, match="not a readable safetensors file"):
            store.read(path, "model")
