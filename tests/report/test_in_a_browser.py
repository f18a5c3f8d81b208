"""The report in a real browser: no error, nothing fetched, a table that searches and sorts, no accessibility fault."""

from __future__ import annotations

import shutil

import pytest

from report.test_report import NAMES, files  # noqa: F401 (a fixture)

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")


@pytest.fixture(scope="module")
def browser():
    if CHROMIUM is None:
        pytest.skip("no browser: install Chromium (Debian: apt install chromium) to test the page of longtail report")
    playwright = pytest.importorskip("playwright.sync_api", reason="install playwright (longtail[dev])")
    with playwright.sync_playwright() as engine:
        opened = engine.chromium.launch(executable_path=CHROMIUM)
        yield opened
        opened.close()


def test_the_page_works_offline(cli, files, tmp_path, browser):  # noqa: F811
    arguments = ("--train", files / "train.jsonl", "--against", files / "poor", "--out", tmp_path / "r.html")
    assert cli("report", files / "model", files / "test.jsonl", *arguments)[0] == 0
    faults, fetched = [], []
    for scheme, width in (("light", 1200), ("dark", 390)):
        page = browser.new_page(color_scheme=scheme, viewport={"width": width, "height": 800})
        page.on("console", lambda message: faults.append(message.text))
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("request", lambda request: fetched.append(request.url))
        page.goto((tmp_path / "r.html").as_uri())
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")  # a page never scrolls sideways
        assert page.evaluate("window.stolen") is None
        first = page.locator("#label-table tbody th").all_inner_texts()
        assert len(first) == len(NAMES)
        page.get_by_label("Search labels").fill("PLÁIN")
        assert page.locator("#label-table tbody th").all_inner_texts() == ["plain"]
        assert page.locator("#label-count").inner_text() == f"1 of {len(NAMES)} labels"
        page.get_by_label("Search labels").fill("")
        observed = page.get_by_role("button", name="observed")
        observed.click()
        column = "#label-table tbody tr td:nth-child(4)"
        falling = [int(value) for value in page.locator(column).all_inner_texts()]
        assert falling == sorted(falling, reverse=True)
        observed.click()
        assert [int(value) for value in page.locator(column).all_inner_texts()] == falling[::-1]
        assert page.locator("th[aria-sort=ascending]").inner_text() == "observed"
        axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="install longtail[dev]").Axe()
        found = axe.run(page).response["violations"]
        assert [(fault["id"], fault["nodes"][0]["html"][:200]) for fault in found] == []
        page.close()
    assert faults == []
    assert {url.partition(":")[0] for url in fetched} <= {"file", "data"}
