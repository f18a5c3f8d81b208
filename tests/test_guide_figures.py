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
    said = re.search(r"should be on about \| ([\d,]+) records \| (\d+) records", page)
    wanted = [float(x.replace(",", "")) for x in said.groups()]
    assert wanted == [round(3000 * weights[0], -1), round(3 * weights[1])]
    for written, weight in zip([round(10 * share) for share in shares], weights, strict=True):
        assert f"| {written} of 10 | {written} × {weight:.1f} = {written * round(weight, 1):.1f} |" in page
    assert f"# {shares[0]:.3f}, {shares[1]:.3f}" in page
    assert f"# {weights[0]:.2f}, {weights[1]:.2f}" in page
