"""What pages mention exists: recipes, studies, benchmarks and tables."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from longtail.bench.study import read_experiments
from longtail.core import registry
from scripts.pages import build  # noqa: F401  (registers every table)
from scripts.pages.lab import Lab
from scripts.pages.marks import names
from scripts.pages.tables import TABLES

ROOT = Path(__file__).parents[2]
PAGES = {
    str(path.relative_to(ROOT)): path.read_text(encoding="utf-8")
    for path in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md")))
}
pages = pytest.mark.parametrize("page", PAGES)


def files_mentioned(text: str) -> set[str]:
    """Recipes, studies and benchmarks by their paths; `*` is a pattern, capitals stand for any name."""
    paths = re.findall(r"(?<![\w/.])(?:recipes|studies|benchmarks)/[\w./*-]+\.(?:toml|py)\b", text)
    modules = re.findall(r"python -m\s+(benchmarks\.[a-z_.]*[a-z_])", text)
    found = {*paths, *(f"{module.replace('.', '/')}.py" for module in modules)}
    return {path for path in found if not re.search(r"[A-Z]", path)}


def of_today(text: str) -> str:
    """Return a page without the cells that say what measured a row: they name files as they were called then."""
    lab = Lab(ROOT)
    results = [result for found in lab.runs.values() for result in found.values()]
    for recorded in {r["measured_by"] for r in [*results, *lab.benchmarks.values()] if "measured_by" in r}:
        text = text.replace(f"| `{recorded}` |", "| |").replace(f"| measured_by | {recorded} |", "| |")
    return text


def recipes_mentioned(text: str) -> set[str]:
    """Names of the form MODEL-VARIANT in backticks, and names given to the benchmarks of text models."""
    models = "|".join(registry.estimator_names())
    commands = "\n".join(re.findall(r"python -m benchmarks\.text\..*", text))
    given = re.findall(r"--(?:only|together|choose|shift) ((?:[a-z][\w-]* ?)+)", commands)
    return {*re.findall(rf"`((?:{models}|aplc|rerank)-[a-z0-9-]+)`", text), *" ".join(given).split()}


@pages
def test_recipes_studies_and_benchmarks_by_path(page):
    missing = [path for path in files_mentioned(of_today(PAGES[page])) if not list(ROOT.glob(path))]
    assert missing == []


@pages
def test_recipes_and_measurements_by_name(page):
    lab = Lab(ROOT)
    files = [*(ROOT / "recipes").glob("*/*.toml"), *(ROOT / "studies").glob("*.toml")]
    known = {recipe.name for recipe in read_experiments(files)} | {file.stem for file in files} | set(lab.benchmarks)
    assert recipes_mentioned(PAGES[page]) - known == set()


def test_mentions_are_found():
    text = "`longtail bench recipes/x/old*.toml`, studies/y.toml, recipes/FOLDER/RECIPE.toml, see `aplc-pw`:"
    text += "python -m benchmarks.text.models --only xgrank aplc --points 3; `benchmarks/old.py`, `xgrank`, `pw-cb`"
    assert files_mentioned(text) == {
        "recipes/x/old*.toml", "studies/y.toml", "benchmarks/text/models.py", "benchmarks/old.py",
    }  # fmt: skip
    assert recipes_mentioned(text) == {"xgrank", "aplc", "aplc-pw"}
    assert len(set().union(*map(files_mentioned, PAGES.values()))) > 50
    assert len(set().union(*map(recipes_mentioned, PAGES.values()))) > 20


def test_every_table_is_in_one_page_and_every_mark_names_a_table():
    shown = Counter(name for text in PAGES.values() for name in names(text))
    assert shown == Counter(list(TABLES))


@pages
def test_marks_come_in_pairs(page):
    marks = re.findall(r"^<!-- (table: [\w-]+|end of [\w -]+) -->$", PAGES[page], flags=re.MULTILINE)
    assert all(mark.startswith("table: ") for mark in marks[::2])
    assert all(mark == "end of table" for mark in marks[1::2])
    assert len(marks) % 2 == 0
