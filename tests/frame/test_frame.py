"""The frame of benchmarks: what every measurement file says, tables, memory, recipes by name, parts in processes."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from benchmarks.common import decimals, image, load, markdown_table, save
from benchmarks.common.data import recipe_named
from benchmarks.common.metrics import METRICS, measured
from benchmarks.common.process import measured_apart
from benchmarks.common.settings import settings
from longtail import Predictions, PropensityModel
from longtail.bench import memory
from longtail.metrics import evaluate

ROOT = Path(__file__).parents[2]
MODULES = sorted(
    ".".join(file.relative_to(ROOT).with_suffix("").parts)
    for file in (ROOT / "benchmarks").rglob("*.py")
    if file.name != "__init__.py" and not file.stem.endswith("_worker")
)


def test_a_measurement_says_command_commit_date_and_machine(tmp_path, capsys):
    save("one", {"table": "| a |", "rows": [1]}, "python -m benchmarks.x", folder=tmp_path)
    found = load("one", tmp_path)
    assert list(found) == ["command", "commit", "date", "machine", "table", "rows"]
    assert "cores" in found["machine"]
    assert "wrote" in capsys.readouterr().out
    save("two", {}, "python", folder=tmp_path, machine_name="a GPU")
    assert load("two", tmp_path)["machine"] == "a GPU"
    assert load("three", tmp_path) == {}
    assert image("x.png", tmp_path) == tmp_path / "x.png"
    assert image("x.png") == ROOT / "docs" / "images" / "x.png"


def test_tables_align_figures_right_and_show_what_is_missing():
    rows = [["a", *decimals({"P@1": 1.234, "s": None}, ("P@1", "s", "absent"))]]
    assert markdown_table(["model", "P@1", "s", "x"], rows) == (
        "| model | P@1 | s | x |\n| --- | ---: | ---: | ---: |\n| a | 1.23 | – | – |"
    )
    assert markdown_table(["a", "b"], [], left=()).splitlines()[1] == "| ---: | ---: |"


def test_the_peak_is_that_since_it_was_reset():
    before = memory.resident()
    memory.reset_peak()
    held = np.ones(8_000_000)  # 64 MB
    assert memory.peak() - before > 0.9 * held.nbytes
    del held
    memory.reset_peak()
    assert memory.peak() < before + 32e6


def test_recipes_and_variants_are_found_by_name():
    assert recipe_named("eurlex57k/dismec").path.name == "dismec.toml"
    assert recipe_named("eurlex57k/ranknet-parabel").path.name == "tail-modules.toml"
    with pytest.raises(SystemExit, match="no recipe or study has eurlex57k/none"):
        recipe_named("eurlex57k/none")


def test_the_metrics_of_benchmarks_are_those_of_the_library():
    ranked = Predictions(np.array([[0, 1, 2, 3, 4], [4, 3, 2, 1, 0]]), np.tile(np.arange(5.0, 0, -1), (2, 1)))
    Y = sparse.csr_matrix([[1, 0, 0, 1, 0, 0, 1], [0, 0, 1, 0, 0, 0, 0]])
    found = measured(ranked, Y, np.array([9, 5, 1, 2, 3]), 20, digits=9)  # two labels are new
    inverse = PropensityModel().inverse([9, 5, 1, 2, 3, 0, 0], 20)
    scores = evaluate(ranked, Y, inverse_propensities=inverse, ks=(1, 3, 5))
    assert list(found) == list(METRICS)
    assert found == pytest.approx({name: scores[name] for name in METRICS})


def test_settings_are_python_values_or_strings():
    assert settings(["a=1", "b=(1, 2)", "c=x=y", "d=bce"]) == {"a": 1, "b": (1, 2), "c": "x=y", "d": "bce"}


def test_a_part_runs_in_its_own_process():
    found = measured_apart("json.tool", "--compact", ROOT / "docs" / "lab" / "benchmarks" / "one-core.json")
    assert found == json.loads((ROOT / "docs" / "lab" / "benchmarks" / "one-core.json").read_text())


def test_every_benchmark_can_be_imported_and_lies_in_the_folder_of_its_topic():
    assert len(MODULES) >= 25
    for name in MODULES:
        importlib.import_module(name)
        assert name.count(".") == 2, name


def test_benchmarks_of_networks_need_no_numba():
    script = "import sys; sys.modules['numba'] = None\n"
    script += "import benchmarks.text.models, benchmarks.text.encoder_step, benchmarks.neural.glas_ablation"
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
