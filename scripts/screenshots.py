"""Take the pictures of the page that docs/serve.md shows, in Chromium; look at them before they are committed.

longtail train train.jsonl.xz -m dismec -o laws --vocabulary labels.json.xz --calibrate yes      # EURLEX57K
longtail report laws test.jsonl.xz --out report.html
python -m scripts.screenshots laws report.json test.jsonl.xz
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from io import BytesIO
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import Page, sync_playwright

from benchmarks.serve.load import service
from longtail.data import read_dataset

ASSETS = Path(__file__).parents[1] / "docs" / "assets"
QUIET = ["--no-sandbox", "--headless", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
WIDE, PHONE = {"width": 1280, "height": 860}, {"width": 390, "height": 844}
CHARACTERS = 1800


def work(page: Page, text: str) -> None:
    """Do what a person would do with a text."""
    page.locator("#text").fill(text)
    page.locator("#found .accept").nth(0).click()
    page.locator("#found .accept").nth(2).click()
    page.locator("#found .reject").nth(5).click()
    page.locator("#found .name").nth(1).click()
    page.locator(".why mark").first.wait_for()
    page.mouse.move(0, 0)


def shoot(page: Page, name: str, *, whole: bool = False) -> None:
    """Write a picture with 200 colours, which is a third as large and looks the same."""
    content = page.screenshot(full_page=whole)
    Image.open(BytesIO(content)).convert("RGB").quantize(200, dither=Image.Dither.NONE).save(
        ASSETS / f"serve-{name}.png", optimize=True
    )


def take(browser: Any, address: str, texts: list[str]) -> None:
    """Write all pictures."""
    for name, scheme, size in (("text", "light", WIDE), ("dark", "dark", WIDE), ("phone", "light", PHONE)):
        page = browser.new_page(color_scheme=scheme, viewport=size, reduced_motion="reduce")
        page.goto(address)
        work(page, texts[0])
        if name == "dark":
            page.locator("#exponent").fill("0.6")
            page.locator("#send").click()
            page.wait_for_load_state("networkidle")
        page.evaluate("scrollTo(0, 0)")
        shoot(page, name)
        page.close()
    page = browser.new_page(color_scheme="light", viewport=WIDE)
    page.goto(address)
    files = [
        {"name": f"law {i + 1}.txt", "mimeType": "text/plain", "buffer": text.encode()} for i, text in enumerate(texts)
    ]
    page.locator("#picker").set_input_files(files)  # type: ignore[arg-type]
    page.get_by_text(f"{len(texts)} of {len(texts)} texts").first.wait_for()
    shoot(page, "files")
    page.get_by_role("link", name="Model", exact=True).click()
    shoot(page, "model", whole=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("report", type=Path, help="report.json of `longtail report`")
    parser.add_argument("data", type=Path, help="file with texts")
    parser.add_argument("--word", default="charentes", help="the text with most of this word is shown")
    arguments = parser.parse_args()
    known = [text[:CHARACTERS] for text in read_dataset(arguments.data).texts[:2000] if len(text) > CHARACTERS]
    texts = sorted(known, key=lambda text: -text.lower().count(arguments.word))[:40]
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        settings = Path(folder) / "service.toml"
        settings.write_text(
            f'feedback = "feedback"\n[models.laws]\npath = "{arguments.model.resolve()}"\nname = "EU laws"\n'
            f'language = "en"\nmetrics = "{arguments.report.resolve()}"\n'
        )
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=QUIET)
        with service("--config", settings) as (port, _):
            take(browser, f"http://127.0.0.1:{port}/", texts)
        browser.close()


if __name__ == "__main__":
    main()
