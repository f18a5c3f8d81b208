"""The page as its tests use it."""

from __future__ import annotations

from playwright.sync_api import Page, expect

from serve.running import call

MODEL = "/longtail/v1/models/texts"
expect.set_options(timeout=20_000)  # a busy machine is slow, not wrong


def names(page: Page) -> list[str]:
    return page.locator("#found .name").all_inner_texts()


def write(page: Page, text: str) -> None:
    page.locator("#text").fill(text)
    expect(page.locator("#found li")).to_have_count(6)


def ranked(service, text: str, **more) -> list[dict]:
    return call(service.address, f"{MODEL}/suggest", {"texts": [text], **more})[1]["results"][0]


def drop(page: Page, name: str, content: str, encoding: str = "utf-8") -> None:
    files = page.evaluate_handle(
        """([name, content]) => {
            const data = new DataTransfer();
            data.items.add(new File([new Uint8Array(content)], name));
            return data;
        }""",
        [name, list(content.encode(encoding))],
    )
    page.dispatch_event("body", "drop", {"dataTransfer": files})
