"""Kernels where their cache is read-only, damaged or full: they are compiled, and no data is blamed."""

from __future__ import annotations

import importlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numba
import numpy as np
import pytest

import longtail
from longtail.core import compiled

KERNEL = "from longtail.core.compiled import njit\n\n@njit(cache=True)\ndef twice(x):\n    return 2 * x\n"


@pytest.fixture
def kernel(tmp_path):
    """A function that loads the module of a kernel afresh, as a new process would, and calls it."""
    file = tmp_path / "package" / "kernels.py"
    file.parent.mkdir()
    file.write_text(KERNEL)

    def call(value):
        spec = importlib.util.spec_from_file_location("kernels_of_test", file)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module.twice(value), module.twice.stats

    return call


@pytest.fixture
def read_only(tmp_path, kernel, monkeypatch):
    """No place for Numba's cache, whoever runs the tests: a file where the folder would be."""
    (tmp_path / "package" / "__pycache__").write_text("")
    (tmp_path / "temporary").mkdir()
    monkeypatch.setenv("HOME", os.devnull)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("NUMBA_CACHE_DIR", "")
    monkeypatch.setattr(numba.config, "CACHE_DIR", "")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    compiled._use_temporary_cache.cache_clear()
    yield tmp_path / "temporary"
    compiled._use_temporary_cache.cache_clear()


def test_kernels_are_kept_in_a_private_temporary_folder(kernel, read_only, caplog):
    assert kernel(4)[0] == 8
    assert len(caplog.messages) == 1
    (folder,) = read_only.iterdir()
    assert f"compiled kernels are kept in {folder}" in caplog.text
    assert folder.stat().st_mode & 0o777 == 0o700
    value, stats = kernel(5)
    assert value == 10
    assert sum(stats.cache_hits.values()) == 1
    assert len(caplog.messages) == 1


def test_a_temporary_folder_that_others_can_write_to_is_not_used(kernel, read_only):
    shared = read_only / f"longtail-kernels-{os.getuid()}"
    shared.mkdir(mode=0o777)
    shared.chmod(0o777)
    assert kernel(4)[0] == 8
    assert list(shared.iterdir()) == []
    (private,) = set(read_only.iterdir()) - {shared}
    assert private.stat().st_mode & 0o777 == 0o700


def test_without_any_folder_kernels_are_compiled_each_time(kernel, read_only, monkeypatch, caplog):
    monkeypatch.setattr(tempfile, "tempdir", os.devnull)
    assert kernel(4)[0] == 8
    assert kernel(5)[0] == 10
    assert [message[:33] for message in caplog.messages] == ["compiled kernels cannot be kept, "[:33]]


@pytest.mark.parametrize("size", [0, 1, 40, -3])
@pytest.mark.parametrize("ending", ["nbi", "nbc"])
def test_a_damaged_cache_file_is_dropped(tmp_path, kernel, caplog, ending, size):
    kernel(3)
    (file,) = (tmp_path / "package" / "__pycache__").glob(f"*.{ending}")
    whole = file.read_bytes()
    file.write_bytes(whole[:size])
    assert kernel(3)[0] == 6
    assert "damaged" in caplog.text
    value, stats = kernel(3)
    assert value == 6
    assert sum(stats.cache_hits.values()) == 1, "the cache is whole again"
    assert len(caplog.messages) == 1


def test_the_command_line_runs_where_everything_is_read_only(tmp_path):
    package = tmp_path / "source" / "longtail"
    shutil.copytree(Path(longtail.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    for folder in [package, *(found for found in package.rglob("*") if found.is_dir())]:
        (folder / "__pycache__").write_text("")
    (tmp_path / "temporary").mkdir()
    (tmp_path / "a.txt").write_text("")  # kernels are imported to read it, but compiling them would take long
    plain = {name: value for name, value in os.environ.items() if name not in ("XDG_CACHE_HOME", "NUMBA_CACHE_DIR")}
    environment = plain | {
        "PYTHONPATH": str(package.parent), "HOME": os.devnull, "TMPDIR": str(tmp_path / "temporary"),
        "PYTHONDONTWRITEBYTECODE": "1",
    }  # fmt: skip
    command = [sys.executable, "-c", "from longtail.app.cli import main; main()", "info", str(tmp_path / "a.txt")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    note, answer = done.stderr.splitlines()
    assert note.startswith("warning: the folders of longtail and of the user are read-only")
    assert answer.endswith("a.txt: the file is empty")


INNER = {
    "a function": ("@njit(cache=True)\ndef inner(x):\n    return 2 * x\n", "2 *", "3 *"),
    "a constant": ("FACTOR = 2\n\n@njit(cache=True)\ndef inner(x):\n    return FACTOR * x\n", "= 2", "= 3"),
    "a function that is not kept": ("@njit\ndef inner(x):\n    return 2 * x\n", "2 *", "3 *"),
    "a function behind another": (
        "@njit\ndef inner(x):\n    return innermost(x)\n\n@njit\ndef innermost(x):\n    return 2 * x\n", "2 *", "3 *",
    ),
    "what a function is made of": (
        "from numba.extending import intrinsic\n\n@intrinsic\ndef inner(typing, x):\n    def generate(context, "
        "builder, signature, args):\n        return factor(context, builder, args)\n    return x(x), generate\n\n"
        "def factor(context, builder, args):\n    return builder.mul(args[0], args[0].type(2))\n", "type(2)", "type(3)",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", INNER)
@pytest.mark.parametrize(
    "called", ["from parcel.inner import inner\n", "from parcel import inner as module\ninner = module.inner\n"]
)
def test_a_kernel_is_compiled_again_when_what_it_calls_has_changed(what, called, tmp_path, monkeypatch):
    content, old, new = INNER[what]
    package = tmp_path / "parcel"
    package.mkdir()
    imports = "from longtail.core.compiled import njit\n"
    (package / "outer.py").write_text(f"{imports}{called}\n@njit(cache=True)\ndef outer(x):\n    return inner(x) + 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def call(content):
        (package / "inner.py").write_text(imports + content)
        for name in [name for name in sys.modules if name.partition(".")[0] == "parcel"]:
            del sys.modules[name]
        importlib.invalidate_caches()
        outer = importlib.import_module("parcel.outer").outer
        return outer(10), sum(outer.stats.cache_hits.values())

    assert call(content) == (21, 0)
    assert call(content) == (21, 1)
    assert call(content.replace(old, new)) == (31, 0)
    assert call(content.replace(old, new)) == (31, 1)


def test_a_function_that_makes_an_array_is_not_compiled_as_one_that_makes_none():
    def total(values):
        return values.copy().sum()

    assert compiled.njit(total)(np.ones(3)) == 3
    with pytest.raises(numba.core.errors.NumbaError):
        compiled.njit(total, allocates=False)(np.ones(3))


@pytest.mark.parametrize("returned", ["values", "(len(values), values)"])
def test_a_function_that_returns_an_array_counts_references(returned):
    names = {}
    exec(f"def first(values):\n    return {returned}\n", names)
    kernel = compiled.njit(names["first"])
    kernel(np.ones(3))
    with pytest.raises(TypeError, match="first returns an array; compile it with allocates=True"):
        compiled.njit(names["first"], allocates=False)(np.ones(3))


def test_a_function_that_returns_numbers_need_not_count_references():
    def largest(values):
        return values.shape[0], max(values[0], values[1])

    assert compiled.njit(largest, allocates=False)(np.array([1.0, 2.0])) == (2, 2.0)
