"""The README does not lie: its example runs and its commands exist (tests/pages checks its table)."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_example_runs_as_printed(tmp_path):
    (example,) = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    assert len(example.strip().splitlines()) <= 12
    done = subprocess.run([sys.executable, "-W", "error", "-c", example], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert re.search(r"PSP@5 +\d+\.\d", done.stdout), done.stdout


def test_the_commands_exist():
    for script in re.findall(r"^bash (scripts/\w+)", README, flags=re.MULTILINE):
        assert (ROOT / script).is_file(), script
    assert "bash scripts/test" in (ROOT / ".ci" / "run").read_text()


def test_links_lead_somewhere():
    for target in re.findall(r"\]\((?!https?:)([^)#]+)\)", README):
        assert (ROOT / target).exists(), target
