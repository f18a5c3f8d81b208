"""The page on instance trees: its example runs, and its table agrees with the result files."""

from __future__ import annotations

import json
import re
from pathlib import Path

DOCS = Path(__file__).parents[3] / "docs"
PAGE = DOCS / "instance-trees.md"


def metrics_of(recipe):
    file = DOCS / "lab" / "runs" / "eurlex57k" / f"{recipe}.json"
    return json.loads(file.read_text(encoding="utf-8"))["metrics"]


def test_the_example_runs():
    examples = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
    assert examples
    for example in examples:
        exec(compile(example, str(PAGE), "exec"), {})


def test_the_table_repeats_the_results():
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    for recipe in ("fastxml", "pfastxml", "pfastrexml", "pfastrexml-linear", "pfastrexml-fitted"):
        names = ("P@1", "P@5", "PSP@1", "PSP@5", "macro-F1@5", "coverage@5")
        shown = [f"{metrics_of(recipe)[name]:.2f}" for name in names]
        assert f"| {' | '.join([recipe, *shown])} |" in lines
    for recipe in ("fastxml", "pfastxml", "pfastrexml", "pfastrexml-linear"):
        shown = [f"{metrics_of(recipe)[f'coverage@{k}']:.2f}" for k in range(1, 6)]
        assert f"| {' | '.join([recipe, *shown])} |" in lines


def test_linear_tail_classifiers_gain_in_both_metrics_as_the_page_says():
    plain, linear = metrics_of("fastxml"), metrics_of("pfastrexml-linear")
    assert linear["PSP@1"] >= 1.3 * plain["PSP@1"]
    assert linear["P@1"] >= plain["P@1"]


def test_the_simulations_say_what_the_page_says():
    found = json.loads((DOCS / "lab" / "benchmarks" / "instance-trees.json").read_text(encoding="utf-8"))
    truth, plain, scored = (found["a"][name]["mean"] for name in ("complete", "plain", "propensity-scored"))
    assert all(abs(s - t) < 0.05 * t < abs(p - t) for t, p, s in zip(truth, plain, scored, strict=True))
    for panel in ("b", "c"):
        assert all(
            ours > theirs
            for ours, theirs in zip(found[panel]["PfastXML"]["least"], found[panel]["FastXML"]["most"], strict=True)
        )
