"""The guides that belong to no room: their examples run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[1] / "docs"


@pytest.mark.parametrize("page", ["index.md", "choose-a-model.md", "evaluate.md", "decisions.md"])
def test_the_example_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    example = re.findall(r"```python\n(.*?)```", (DOCS / page).read_text(encoding="utf-8"), flags=re.DOTALL)[0]
    exec(compile(example, page, "exec"), {})
