"""Fixtures that several rooms share."""

from __future__ import annotations

import json
import shutil
import sys

import pytest

from contract.planted import planted
from longtail.app.cli import main
from longtail.data import Dataset, write_dataset

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
QUIET = [
    "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update",
    "--disable-default-apps", "--disable-sync", "--no-first-run",
]  # fmt: skip
NO_BROWSER = "no browser: install Chromium (bash scripts/browser, or apt install chromium)"


@pytest.fixture(scope="module")
def browser():
    """A real Chromium, driven by Playwright; tests that ask for it are skipped where there is none."""
    if CHROMIUM is None:
        pytest.skip(NO_BROWSER)
    playwright = pytest.importorskip("playwright.sync_api", reason="install playwright (longtail[dev])")
    with playwright.sync_playwright() as engine:
        opened = engine.chromium.launch(executable_path=CHROMIUM, args=QUIET)
        yield opened
        opened.close()


def pytest_terminal_summary(terminalreporter):
    """Say aloud that pages were not opened: a line of dots would hide it."""
    skipped = sum(NO_BROWSER in str(report.longrepr) for report in terminalreporter.stats.get("skipped", []))
    if skipped:
        terminalreporter.write_line(f"{skipped} tests of pages were SKIPPED, {NO_BROWSER}", yellow=True, bold=True)


@pytest.fixture
def cli(monkeypatch, capsys):
    """Run `longtail ...` in this process: (exit code, stdout, stderr)."""

    def run(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["longtail", *map(str, arguments)])
        with pytest.raises(SystemExit) as stop:
            main()
        captured = capsys.readouterr()
        return int(stop.value.code or 0), captured.out, captured.err

    return run


@pytest.fixture
def xc(tmp_path):
    """train.txt and test.txt with features."""
    for name, seed in (("train", 0), ("test", 1)):
        data = planted(80, seed)
        write_dataset(Dataset(Y=data.Y, X=data.X), tmp_path / f"{name}.txt")
    return tmp_path


@pytest.fixture
def texts(tmp_path):
    """train.jsonl and test.jsonl with texts and label names; the test set has a label that training lacks."""
    for name, seed, extra in (("train", 0, []), ("test", 1, ["aaa unknown"])):
        data = planted(80, seed)
        with open(tmp_path / f"{name}.jsonl", "w") as file:
            for text, labels in zip(data.texts, data.lists, strict=True):
                file.write(json.dumps({"text": text, "labels": [f"name {i}" for i in labels] + extra}) + "\n")
    return tmp_path
