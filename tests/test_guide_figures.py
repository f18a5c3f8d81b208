"""The figures that guides state in their sentences: those of the library, or of its measurements."""

from __future__ import annotations

import json
import re
from pathlib import Path

import longtail

DOCS = Path(__file__).parents[1] / "docs"
PAGE = DOCS / "rare-labels-explained.md"


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


def measured(name):
    return json.loads((DOCS / "lab" / "benchmarks" / f"{name}.json").read_text(encoding="utf-8"))


def test_what_docs_say_about_labels_chosen_together_was_measured():
    page = " ".join((DOCS / "decisions.md").read_text(encoding="utf-8").split())
    models = measured("decisions")["models"]
    said = re.search(r"macro-F1@5 by (\d+) % over .*?DiSMEC, by (\d+) % over .*?Bonsai, and by (\d+) % over", page)
    for percent, name in zip(said.groups(), ("dismec", "bonsai", "ranknet-dismec"), strict=True):
        ranked = models[f"eurlex57k/{name}"]["ranked"]
        before, after = (ranked[how]["macro-F1@5"] for how in ("top k", "together, macro-f1"))
        assert int(percent) == round(100 * (after / before - 1)), name
    found = models["eurlex57k/dismec"]
    ours, theirs = found["seconds of CPU"]["together, macro-f1"], found["xCOLUMNs"]["their seconds of CPU"]
    assert f"take {ours} seconds of CPU; the library xCOLUMNs took {theirs} for" in page
    assert abs(found["xCOLUMNs"]["ours"] - found["xCOLUMNs"]["theirs"]) < 0.1


def test_calibrated_probabilities_are_as_good_as_the_docs_say():
    """ECE@5 is below 2 points in every row, and below that of isotonic regression wherever both were measured."""
    for title, found in measured("decisions")["models"].items():
        errors = found["ECE@5"]
        assert errors["after"]["all"] < min(2, errors.get("isotonic regression", errors["before"])["all"]), title


def test_what_docs_say_about_the_cost_of_a_report_was_measured():
    page, found = (DOCS / "report.md").read_text(encoding="utf-8"), measured("report")
    seconds, gigabytes, milliseconds = (
        re.search(rf"([\d.]+)\s+{unit}", page)[1] for unit in ("seconds", "GB", "milliseconds")
    )
    assert float(seconds) == round(found["report"]["seconds"])
    assert float(gigabytes) == round(found["report"]["peak_mb"] / 1000, 1)
    assert float(milliseconds) == round(found["explain"]["median_ms"], 1)
