"""The limits that CONTRIBUTING.md states: a file is one idea, a function is one screen (its docstring aside)."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FILE_LINES, FUNCTION_LINES = 400, 70
FILES = sorted(file for folder in ("src", "tests", "benchmarks", "scripts") for file in (ROOT / folder).rglob("*.py"))


def docstring_lines(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    first = node.body[0]
    is_text = (
        isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str)
    )
    return (first.end_lineno or first.lineno) - first.lineno + 1 if is_text else 0


def beyond(file: Path) -> list[str]:
    """What of a file is longer than it may be."""
    source = file.read_text(encoding="utf-8")
    n_lines = source.count("\n")
    found = [f"{file.name} has {n_lines} lines, at most {FILE_LINES}"] if n_lines > FILE_LINES else []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            length = (node.end_lineno or node.lineno) - node.lineno + 1 - docstring_lines(node)
            if length > FUNCTION_LINES:
                found.append(f"{file.name}:{node.lineno} {node.name} has {length} lines, at most {FUNCTION_LINES}")
    return found


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(ROOT)))
def test_files_and_functions_are_short(file):
    assert beyond(file) == []


def test_what_is_too_long_is_found(tmp_path):
    file = tmp_path / "long.py"
    file.write_text("def f():\n" + "    x = 1\n" * 400)
    assert beyond(file) == [
        "long.py has 401 lines, at most 400",
        "long.py:1 f has 401 lines, at most 70",
    ]
