"""Wherever a table shows PSP, it shows macro-F1@5 and coverage@5, too: docs/metrics.md says why."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from benchmarks.common.metrics import BESIDE_PSP

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]
PAPERS = ROOT / "docs" / "lab" / "papers.md"  # quotes figures of papers that have only PSP
FIGURE = re.compile(r"\W*\d+\.\d")  # what a cell with a figure begins with


def tables_of(text: str) -> list[list[list[str]]]:
    """Return the tables of a page, each as rows of cells, without the rule below the header."""
    found = re.findall(r"^\|.*\n\|[ :|-]+\|\n(?:\|.*\n?)*", text, flags=re.MULTILINE)
    return [
        [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines[:1] + lines[2:]]
        for lines in (table.splitlines() for table in found)
    ]


def lacking(table: list[list[str]]) -> set[str]:
    """Return what a table that has figures of PSP, in a column or in a row, does not show."""
    header, *rows = table
    titles = [*header, *(row[0] for row in rows)]
    column = {at for at, title in enumerate(header) if "PSP" in title}
    shown = any(FIGURE.match(row[at]) for row in rows for at in column if at < len(row))
    shown |= any("PSP" in row[0] and any(map(FIGURE.match, row[1:])) for row in rows)
    names = {name: name.partition("@")[0] for name in BESIDE_PSP}
    return {name for name, base in names.items() if shown and not any(base in title for title in titles)}


@pytest.mark.parametrize("page", [page for page in PAGES if page != PAPERS], ids=lambda page: page.name)
def test_no_table_shows_psp_alone(page):
    for table in tables_of(page.read_text(encoding="utf-8")):
        assert lacking(table) == set(), table[0]


def test_tables_with_psp_alone_are_found():
    head = "\n| | P@1 | PSP@1 |\n| --- | ---: | ---: |\n"
    assert [lacking(table) for table in tables_of(f"{head}| a | 1.0 | **2.0** |\n")] == [set(BESIDE_PSP)]
    assert [lacking(table) for table in tables_of(f"{head}| a | 1.0 | better |\n")] == [set()]
    rows = "| | a |\n| --- | ---: |\n| PSP@1 | 2.5 |\n| macro-F1@5 | 1.2 |\n"
    assert [lacking(table) for table in tables_of(rows)] == [{"coverage@5"}]
    assert [lacking(table) for table in tables_of(f"{rows}| coverage@5 | – |\n\n{rows}")] == [set(), {"coverage@5"}]
    assert {*BESIDE_PSP} in [lacking(table) for table in tables_of(PAPERS.read_text(encoding="utf-8"))]
