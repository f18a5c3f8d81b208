from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("page", ["propensities.md", "features.md"])
def test_the_example_runs(page: str) -> None:
    examples = re.findall(r"```python\n(.*?)```", (DOCS / page).read_text(encoding="utf-8"), flags=re.DOTALL)
    assert examples
    for example in examples:
        exec(compile(example, page, "exec"), {})


def test_the_page_quotes_the_fit_that_was_measured() -> None:
    result = json.loads((DOCS / "lab" / "benchmarks" / "propensity-eurlex57k.json").read_text(encoding="utf-8"))
    page = " ".join((DOCS / "propensities.md").read_text(encoding="utf-8").split())
    quoted = (
        f"A = {result['A']:.2f}, B = {result['B']:.2f} with R² = {result['r2']:.2f} and RMSE = {result['rmse']:.3f}"
    )
    assert quoted in page
    assert f"over {result['n_bins']} bins of {result['n_labels']} labels" in page
    assert f"has R² = {result['default_r2']:.2f}" in page
    assert f"{result['n_never_noted']} more concepts" in page
