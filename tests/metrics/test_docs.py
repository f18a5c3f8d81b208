from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "metrics.md"


def test_the_example_of_the_page_runs_and_says_what_it_says() -> None:
    names: dict[str, Any] = {}
    exec(re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)[0], names)
    result = names["evaluate"](names["predictions"], names["Y"], inverse_propensities=names["inverse"], ks=(1, 2))
    assert result["P@1"] == 75.0
    assert names["score"](names["matches"], "PSP@2") == pytest.approx(result["PSP@2"] / 100)
