"""The figures that docs/rare-labels-explained.md states."""

from __future__ import annotations

import re
from pathlib import Path

import longtail

PAGE = Path(__file__).parents[1] / "docs" / "rare-labels-explained.md"


def test_the_figures_of_the_worked_example_are_those_of_the_propensity_model():
    page = PAGE.read_text(encoding="utf-8")
    model = longtail.PropensityModel()
    shares = model.propensities([3000, 3], n_points=100_000)
    weights = model.inverse([3000, 3], n_points=100_000)
    said = re.search(r"written down where it applies \| (\d+) times in 100 \| (\d+) times", page)
    assert [int(x) for x in said.groups()] == [round(100 * share) for share in shares]
    said = re.search(r"correct suggestion counts \| ([\d.]+) \| ([\d.]+)", page)
    assert [float(x) for x in said.groups()] == [round(weight, 1) for weight in weights]
    assert f"# {shares[0]:.3f}, {shares[1]:.3f}" in page
    assert f"# {weights[0]:.2f}, {weights[1]:.2f}" in page
