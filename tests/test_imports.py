"""The rooms and their arrows: what may import what, and what must not be imported to print a help text."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "longtail"

# From ../shared/DESIGN.md and docs/architecture.md: each room with the rooms that it may import, besides errors.
FOUNDATION = {"core", "data", "features", "objectives", "metrics"}
ALLOWED: dict[str, set[str]] = {
    "errors": set(),
    "core": set(),
    "objectives": {"core"},
    "data": {"core", "objectives"},  # the generator drops labels by the propensities of objectives
    "features": {"core"},
    "metrics": {"core", "objectives"},  # the scorer takes propensities from the label counts of an estimator
    "linear": FOUNDATION,
    "trees": FOUNDATION | {"linear"},
    # metrics: when to stop training; data: the texts of labels come as a file
    "neural": {"core", "data", "objectives", "metrics", "trees"},
    # metrics choose the best epoch of RankNet, whose network neural trains
    "compose": {"core", "objectives", "metrics", "neural"},
    # what every application needs: estimators by name, models applied to files, scores
    "workflow": {"core", "data", "features", "objectives", "metrics"},
    "bench": {"workflow", "core", "data", "features", "objectives"},
    # what a fit reaches is swept by the calibration of compose; splits and recipes are those of bench
    "tune": FOUNDATION | {"workflow", "bench", "compose"},
    # compose: rankings by an exponent
    "report": FOUNDATION | {"workflow", "compose"},
    # compose: calibrations and the formula of the dial from head to tail
    "serve": FOUNDATION | {"compose", "workflow"},
    # handed in through `Run`: models do not know it
    "engine": {"core"},
    "app": FOUNDATION | {"engine", "linear", "workflow", "bench", "report", "serve", "tune"},
    "__init__": set(),
}


def room_of(file: Path) -> str:
    parts = file.relative_to(SOURCE).with_suffix("").parts
    return parts[0]


def imported_rooms(file: Path) -> list[tuple[int, str]]:
    """(line, room) of every import of longtail in a file, also those inside of functions."""
    found = []
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}:{node.lineno}: imports are absolute here"
            modules = [node.module or ""]
            if node.module == "longtail":
                modules = [f"longtail.{alias.name}" for alias in node.names]
        else:
            continue
        found += [(node.lineno, m.split(".")[1]) for m in modules if m.startswith("longtail.")]
    return found


def wrong_arrows(files: list[Path]) -> list[str]:
    wrong = []
    for file in files:
        room = room_of(file)
        assert room in ALLOWED, (
            f"{file}: a new room; say in tests/test_imports.py and docs/architecture.md what it may use"
        )
        for line, used in imported_rooms(file):
            if used not in ALLOWED[room] | {room, "errors"}:
                wrong.append(f"{file.relative_to(SOURCE)}:{line}: {room} must not import {used}")
    return wrong


def test_every_arrow_points_the_right_way():
    files = sorted(SOURCE.rglob("*.py"))
    assert len(files) > 30
    assert wrong_arrows(files) == []


def test_a_wrong_arrow_would_be_found(tmp_path, monkeypatch):
    monkeypatch.setattr(sys.modules[__name__], "SOURCE", tmp_path)
    (tmp_path / "core").mkdir()
    (tmp_path / "core" / "x.py").write_text("def f():\n    from longtail.app import cli\n")
    assert wrong_arrows([tmp_path / "core" / "x.py"]) == ["core/x.py:2: core must not import app"]


HEAVY = ["torch", "ray", "fastapi", "matplotlib", "numba", "sklearn", "scipy", "pyarrow"]
PROBE = """
import json, resource, runpy, sys
before = resource.getrusage(resource.RUSAGE_SELF)
{action}
used = resource.getrusage(resource.RUSAGE_SELF)
seconds = used.ru_utime + used.ru_stime
print("PROBE" + json.dumps([seconds, [m for m in {heavy} if m in sys.modules]]))
"""
SHOW_HELP = """
sys.argv = ["longtail", "--help"]
try:
    from longtail.app.cli import main
    main()
except SystemExit as stop:
    assert stop.code in (0, None), stop.code
"""


@pytest.mark.parametrize("action", ["import longtail", SHOW_HELP], ids=["import", "help"])
def test_start_is_light(action):
    """The whole process, interpreter included, takes less than 0.7 s of CPU and loads nothing heavy."""
    script = PROBE.format(action=action, heavy=HEAVY)
    seconds = []
    for _ in range(3):  # the best of three: a busy machine adds to CPU time, too
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
        measured, heavy = json.loads(done.stdout.rpartition("PROBE")[2])
        assert heavy == []
        seconds.append(measured)
    assert min(seconds) < 0.7
