"""The site: a strict build fails on what a reader would stumble over, and shows what the sources say.

`scripts/test` builds the real pages; here are pages with mistakes.
"""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("mkdocs")

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def hooks():
    spec = importlib.util.spec_from_file_location("site_hooks", ROOT / "scripts" / "site_hooks.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_strict_build_names_every_mistake(tmp_path):
    for name in ("docs", "scripts", "src"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__", "*.json"))
    for name in ("mkdocs.yml", "CHANGELOG.md"):
        shutil.copy(ROOT / name, tmp_path)
    docs = tmp_path / "docs"
    (docs / "unlisted.md").write_text("# A page that is in no menu\n")
    (docs / "lab" / "zebra.md").write_text("# Zebra\n\n[dead](nothing-here.md) and [no anchor](../data.md#nothing)\n")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict"], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode != 0
    for mistake in ("- unlisted.md", "'nothing-here.md'", "'../data.md#nothing'"):
        assert mistake in done.stderr
    assert "- lab/zebra.md" not in done.stderr, "pages of the lab are listed by themselves"
    site = tmp_path / ".cache" / "site"
    assert 'id="longtail.linear.dismec.DiSMEC"' in (site / "reference" / "linear" / "index.html").read_text()
    assert "--unit-rows" in (site / "command-line" / "index.html").read_text()
    assert "Zebra" in (site / "lab" / "papers" / "index.html").read_text()


def test_every_command_has_its_options_on_the_page(hooks):
    page = SimpleNamespace(file=SimpleNamespace(src_uri="command-line.md"))
    markdown = (ROOT / "docs" / "command-line.md").read_text(encoding="utf-8")
    shown = hooks.on_page_markdown(markdown, page)
    assert "| `--weighting` `W` |" in shown
    assert "<!-- options" not in shown
    with pytest.raises(hooks.PluginError, match="train"):
        hooks.on_page_markdown(markdown.replace("<!-- options: train -->", ""), page)


def test_lists_are_separated_from_paragraphs(hooks):
    page = SimpleNamespace(file=SimpleNamespace(src_uri="any.md"))
    text = "Words:\n- one\n  more\n- two\n\n```\nplain\n- code\n```\nWords:\n1. one\n2. two\n"
    shown = "Words:\n\n- one\n  more\n- two\n\n```\nplain\n- code\n```\nWords:\n\n1. one\n2. two\n"
    assert hooks.on_page_markdown(text, page) == shown
