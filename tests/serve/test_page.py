"""The page in a real browser: Debian's Chromium, driven by Playwright."""

from __future__ import annotations

import json
import os

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from serve.browsing import drop, names, ranked, write
from serve.conftest import PREFIX, words_of
from serve.running import start

THREE = f"{words_of(0)} {words_of(5)} {words_of(2)}"


def test_a_pasted_text_gets_its_labels(page, service):
    page.evaluate("text => navigator.clipboard.writeText(text)", words_of(3))
    page.locator("#text").focus()
    page.keyboard.press("Control+V")
    expect(page.locator("#found li")).to_have_count(6)
    expected = ranked(service, words_of(3))
    assert names(page) == [one["label"] for one in expected]
    expect(page.locator("#uncalibrated")).to_be_hidden()
    first = page.locator("#found li").first
    expect(first.locator(".value")).to_have_text(f"{100 * expected[0]['probability']:.0f}\u00a0%")
    expect(first.locator(".details")).to_contain_text(expected[0]["band"])
    expect(first.locator(".details")).to_contain_text(f"{expected[0]['count']} training texts")
    expect(first.locator(".details")).to_contain_text("under concept 0")
    page.locator("#limit").fill("2")
    expect(page.locator("#found li")).to_have_count(2)
    page.locator("#threshold").fill("100")
    expect(page.locator("#nothing")).to_contain_text("No label for this text")
    page.locator("#language").select_option("fi")
    page.locator("#threshold").fill("0")
    expect(page.locator("#found .name").first).to_have_text("käsite 3")


def test_the_slider_ranks_again_from_head_to_tail(page, service):
    write(page, THREE)
    head, tail = ([one["label"] for one in ranked(service, THREE, exponent=exponent)] for exponent in (0.0, 1.0))
    assert head != tail
    assert names(page) == head
    page.locator("#exponent").focus()
    page.keyboard.press("End")
    expect(page.locator("#found .name")).to_have_text(tail)
    expect(page.locator("#exponent")).to_have_attribute("aria-valuetext", "1.00, rare labels count most")
    page.keyboard.press("Home")
    expect(page.locator("#found .name")).to_have_text(head)
    expect(page.locator("#exponent")).to_be_focused()


def test_a_click_marks_the_words_that_spoke_for_a_label(page):
    write(page, f"\N{FISH} {words_of(0)},\n{words_of(3)}!")
    row = page.locator("#found li").filter(has_text="concept 3")
    row.locator(".name").click()
    expect(row.locator(".why")).to_contain_text(words_of(3).split()[0])
    marked = page.locator("#marks mark.f4, #marks mark.f3").all_inner_texts()
    assert set(marked) <= set(words_of(3).split())
    assert marked
    text, under = (page.locator(one).bounding_box() for one in ("#text", "#marks"))
    assert text == under  # the marks lie where the words are
    row.locator(".name").click()
    expect(page.locator("#marks mark")).to_have_count(0)


def test_long_texts_have_only_their_strongest_words_marked(page):
    found = page.evaluate(
        """async () => {
            const { mark } = await import("./marks.js");
            const tokens = Array.from({ length: 150_000 }, (_, i) =>
                ({ token: "word", start: 5 * i, end: 5 * i + 4, weight: i % 50 === 7 ? 1 : 0.5 }));
            mark("word ".repeat(tokens.length), tokens);
            const marks = [...document.querySelectorAll("#marks mark")];
            return [document.querySelector("#marks").textContent.length, marks.length,
                marks.filter((one) => one.className === "f4").length];
        }"""
    )
    assert found == [750_001, 5_000, 3_000]


def test_csv_for_spreadsheets_holds_no_formulas(page):
    rows = page.evaluate("import('./labels.js').then(own => own.csvOf([['=1+1', '@a,b', '-c', 'd=e', -0.5, null]]))")
    assert rows == "'=1+1,\"'@a,b\",'-c,d=e,-0.5,\r\n"


def test_accepted_rejected_and_added_labels_are_sent_and_copied(page, service, folder):
    text = f"{words_of(1)} {words_of(2)} browser"
    write(page, text)
    first, second, third = ranked(service, text)[:3]
    page.locator("#found .exclude").nth(2).click()
    expect(page.locator("#found li")).to_have_count(5)
    page.locator("#found .accept").nth(0).click()
    page.locator("#found .reject").nth(1).click()
    page.locator("#limit").fill("2")
    expect(page.locator("#found li")).to_have_count(2)
    page.locator("#add").fill("concept 5")
    page.locator("#matches li").first.click()
    expect(page.locator("#chosen li")).to_have_text([first["label"], "concept 5"])
    for kind, expected in {
        "labels": f"{first['label']}\nconcept 5",
        "uris": f"{first['uri']}\n{PREFIX}c5",
        "csv": "uri,label,notation,probability\n"
        f"{first['uri']},{first['label']},,{first['probability']}\n{PREFIX}c5,concept 5,,\n",
    }.items():
        page.locator(f"[data-copy={kind}]").click()
        expect(page.locator("#said")).to_contain_text("Copied 2 chosen labels as")
        assert page.evaluate("navigator.clipboard.readText()").replace("\r\n", "\n") == expected
    page.locator("[data-copy=json]").click()
    expect(page.locator("#said")).to_contain_text("JSON")
    assert [one["uri"] for one in json.loads(page.evaluate("navigator.clipboard.readText()"))] == [
        first["uri"],
        f"{PREFIX}c5",
    ]
    page.locator("#send").click()
    expect(page.locator("#said")).to_contain_text("Feedback stored: 1 accepted, 1 added, 1 rejected")
    lines = (folder / "feedback" / "texts.jsonl").read_text().splitlines()
    (stored,) = [one for one in map(json.loads, lines) if one["text"] == text]
    found = {how: [f"{PREFIX}{one}" for one in stored[how]] for how in ("accepted", "rejected", "added")}
    assert found == {"accepted": [first["uri"]], "rejected": [second["uri"]], "added": [f"{PREFIX}c5"]}
    # What is never suggested stays so on the next visit, until it is asked for again.
    page.reload()
    page.locator("#limit").fill("10")
    page.locator("#text").fill(text)
    expect(page.locator("#found li")).to_have_count(5)
    assert third["label"] not in names(page)
    page.get_by_role("button", name=f"Suggest {third['label']} again").click()
    expect(page.locator("#found li")).to_have_count(6)


def test_by_keyboard_alone(page):
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the text")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#text")).to_be_focused()
    page.keyboard.type(words_of(3))
    expect(page.locator("#found li")).to_have_count(6)
    for _ in range(4):  # slider, limit, threshold, first label
        page.keyboard.press("Tab")
    expect(page.locator("#found .name").first).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#found li").first.locator(".why")).to_contain_text("Spoke for it")
    page.keyboard.press("Escape")
    expect(page.locator("#found li").first.locator(".why")).to_be_hidden()
    page.keyboard.press("a")
    expect(page.locator("#found .accept").first).to_have_attribute("aria-pressed", "true")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("r")
    expect(page.locator("#found .reject").nth(1)).to_have_attribute("aria-pressed", "true")
    page.keyboard.press("ArrowDown")
    gone = names(page)[2]
    page.keyboard.press("x")
    expect(page.locator("#found li")).to_have_count(5)
    assert gone not in names(page)
    expect(page.locator("#found .name").nth(2)).to_be_focused()
    page.locator("#add").focus()
    page.keyboard.type("concept")
    expect(page.locator("#matches li")).to_have_count(6)
    page.keyboard.press("ArrowDown")
    expect(page.locator("#add")).to_have_attribute("aria-activedescendant", "match-1")
    added = page.locator("#match-1").inner_text().split("\n")[0]
    page.keyboard.press("Enter")
    expect(page.locator("#said")).to_have_text(f"Added {added}.")
    page.locator("#send").focus()
    page.keyboard.press("Enter")
    expect(page.locator("#said")).to_contain_text("Feedback stored")


def violations(page: Page) -> list[str]:
    found = Axe().run(page).response["violations"]
    return [f"{one['id']}: {node['html'][:200]}" for one in found for node in one["nodes"]]


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 390)])
def test_axe_finds_no_violation(page, scheme, width):
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size({"width": width, "height": 900})
    write(page, f"{words_of(3)} {words_of(0)}")
    page.locator("#found .accept").nth(0).click()
    page.locator("#found .reject").nth(1).click()
    page.locator("#found .exclude").nth(5).click()
    page.locator("#found .name").first.click()
    expect(page.locator(".why mark").first).to_be_visible()
    page.locator("#add").fill("concept")
    expect(page.locator("#matches li")).to_have_count(6)
    assert violations(page) == []
    drop(page, "two.csv", f"id,note,text\n1,x,{words_of(5)}\n2,y,{words_of(0)}\n")
    expect(page.locator("#progress-text")).to_have_text("2 of 2 texts")
    assert violations(page) == []
    for view in ("Text", "Files", "Model"):
        page.get_by_role("link", name=view, exact=True).click()
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), view
    tables = page.locator("#about .view > .scroll, #about .pair .scroll")
    expect(tables).to_have_count(2)
    for table in tables.all():
        assert table.evaluate("one => one.scrollWidth <= one.clientWidth")
    assert violations(page) == []


def test_what_a_model_is(page, service):
    page.get_by_role("link", name="Model", exact=True).click()
    about = page.locator("#about")
    expect(page.locator("#model-title")).to_have_text("Planted texts")
    expect(about).to_contain_text("DiSMEC")
    expect(about.get_by_role("row", name="head")).to_be_visible()
    expect(about.get_by_role("row", name="P precision: right")).to_contain_text("90.0")
    expect(about).to_contain_text("calibrated on data that the model has not seen")
    frontier = about.get_by_role("img", name="PSP@1 against P@1: from 90.0 and 71.5 at exponent 0")
    expect(frontier.locator("circle")).to_have_count(3)
    expect(frontier).to_contain_text("0 (slider)")
    page.locator("#models").select_option("rows")
    expect(page.locator("#model-title")).to_have_text("rows")
    expect(about).to_contain_text("Nobody has measured it yet")
    page.get_by_role("link", name="Text", exact=True).click()
    expect(page.locator("#nothing")).to_contain_text("reads rows of features")


def test_a_service_that_does_not_answer_is_said(browser, service):
    page, errors = browser.new_page(), []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.route("**/longtail/v1/models", lambda route: route.abort())
    page.goto(f"{service.address}/#/model")
    expect(page.get_by_role("alert")).to_contain_text("the service does not answer")
    page.get_by_role("link", name="Text", exact=True).click()
    page.locator("#text").fill("nobody reads this")
    page.locator("#clear").click()
    page.locator("#add").fill("concept")
    page.wait_for_timeout(300)  # the search waits for a pause of 120 ms
    page.unroute("**/longtail/v1/models")
    page.reload()
    write(page, words_of(3))
    page.route("**/labels?**", lambda route: route.abort())
    page.locator("#add").fill("concept")
    expect(page.locator("#matches")).to_have_text("the service does not answer; is it running?")
    page.unroute("**/labels?**")
    page.locator("#add").fill("concept 5")
    expect(page.locator("#matches li").first).to_contain_text("concept 5")
    expect(page.get_by_role("alert")).to_be_hidden()
    expect(page.get_by_role("link", name="Addresses for programs")).to_be_visible()
    page.close()
    assert errors == []


def test_what_is_written_or_dropped_while_models_are_loaded_stays(browser, folder, tmp_path):
    pipe = tmp_path / "metrics.json"
    os.mkfifo(pipe)  # the service waits for it
    settings = f'drain = 0\n[models.m]\npath = "{folder / "texts"}"\nmetrics = "{pipe}"\n'
    (tmp_path / "service.toml").write_text(settings)
    running = start("--config", tmp_path / "service.toml", ready=503)
    page = browser.new_page()
    try:
        page.goto(running.address)
        expect(page.get_by_role("alert")).to_contain_text("The models are being loaded")
        page.locator("#text").fill(words_of(3))
        drop(page, "two.csv", f"id,text\n1,{words_of(5)}\n2,{words_of(0)}\n")
        page.wait_for_timeout(2500)  # the page looks every second
        pipe.write_text('{"P@1": 50.0}')
        expect(page.locator("#documents tbody tr").first).to_contain_text("concept 5")
        page.get_by_role("link", name="Text", exact=True).click()
        expect(page.locator("#found .name").first).to_have_text("concept 3")
        expect(page.locator("#text")).to_have_value(words_of(3))
        expect(page.locator("#trouble")).to_be_hidden()
    finally:
        page.close()
        running.stop()


def test_a_token_is_asked_for(browser, folder, tmp_path):
    (tmp_path / "token").write_text("open sesame\n")
    running = start(f"m={folder / 'texts'}", "--token-file", tmp_path / "token")
    page = browser.new_page()
    try:
        page.goto(running.address)
        for given in ("wrong", "open sesame"):
            page.locator("#token").fill(given)
            page.keyboard.press("Enter")
            if given == "wrong":
                expect(page.get_by_role("alert")).to_have_text("That was not the token.")
        expect(page.locator("#models")).to_have_value("m")
        expect(page.get_by_role("link", name="Addresses for programs")).to_be_hidden()  # a link sends no token
        page.locator("#text").fill(words_of(3))
        expect(page.locator("#found .name").first).to_have_text("concept 3")
        expect(page.locator("#send")).to_be_disabled()  # started without --feedback
        expect(page.get_by_text("This model is not calibrated")).to_be_visible()
        assert "model m: not calibrated" in running.log.read_text()
    finally:
        page.close()
        running.stop()
