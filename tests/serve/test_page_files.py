"""Files on the page, in a real browser: many texts, other encodings, texts that the service refuses."""

from __future__ import annotations

import csv
import json

from playwright.sync_api import expect

from serve.browsing import drop, ranked
from serve.conftest import PREFIX, words_of


def test_files_are_worked_through_and_downloaded(page, service, tmp_path):
    lines = [{"id": f"doc {i}", "title": "short", "text": f"{words_of(i % 6)} {i}"} for i in range(40)]
    (tmp_path / "some.jsonl").write_text("".join(json.dumps(one) + "\n" for one in lines))
    with open(tmp_path / "more.csv", "w", newline="") as file:
        csv.writer(file).writerows(
            [["id", "abstract"], ["row 1", f'{words_of(4)}, "quoted"\nand\r\nbroken'], ["row 2", ""]]
        )
    (tmp_path / "last.txt").write_text(words_of(2))
    page.locator("#picker").set_input_files([tmp_path / name for name in ("some.jsonl", "more.csv", "last.txt")])
    expect(page.locator("#progress-text")).to_have_text("43 of 43 texts")
    rows = page.locator("#documents tbody tr")
    expect(rows).to_have_count(43)
    expect(rows.nth(40)).to_contain_text("row 1")
    expect(rows.nth(40)).to_contain_text("concept 4")
    with page.expect_download() as waiting:
        page.locator("[data-download=jsonl]").click()
    found = [json.loads(line) for line in waiting.value.path().read_text().splitlines()]
    assert [one["id"] for one in found] == [one["id"] for one in lines] + ["row 1", "row 2", "last.txt"]
    assert found[40]["text"] == f'{words_of(4)}, "quoted"\nand\r\nbroken'
    for one in (found[3], found[40]):
        expected = ranked(service, one["text"])
        assert one["labels"] == [label["uri"] for label in expected]
        assert [label["probability"] for label in one["suggestions"]] == [label["probability"] for label in expected]
    # One of them is reviewed in the first view, and the next follows.
    page.get_by_role("button", name="doc 3", exact=True).focus()
    page.keyboard.press("Enter")
    expect(page.locator("#place")).to_have_text("doc 3 (4 of 43)")
    expect(page.locator("#text")).to_be_focused()
    page.go_back()
    expect(page.get_by_role("button", name="doc 3", exact=True)).to_be_focused()
    page.keyboard.press("Enter")
    page.locator("#found .accept").first.click()
    page.locator("#next").click()
    expect(page.locator("#text")).to_have_value(lines[4]["text"])
    expect(page.locator("#chosen li")).to_have_count(0)
    page.get_by_role("link", name="Files").click()
    expect(rows.nth(3)).to_contain_text("reviewed")
    with page.expect_download() as waiting:
        page.locator("[data-download=csv]").click()
    with open(waiting.value.path(), newline="") as file:
        reviewed = [row for row in csv.DictReader(file) if row["reviewed"] == "true"]
    assert [(row["document"], row["uri"]) for row in reviewed] == [("doc 3", f"{PREFIX}c3")]


def test_dropped_files(page):
    drop(page, "one.txt", words_of(4))
    expect(page.locator("#text")).to_have_value(words_of(4))
    expect(page.locator("#found .name").first).to_have_text("concept 4")
    drop(page, "two.csv", f"id;note;words\n1;x;{words_of(5)}\n2;y;{words_of(0)}\n")
    expect(page.locator("#documents tbody tr")).to_have_count(2)
    expect(page.locator("#documents tbody tr").first).to_contain_text("concept 5")
    expect(page.locator("#column")).to_have_value("words")
    drop(page, "bad.jsonl", '{"text": "a"}\n[1]\n')
    expect(page.get_by_role("alert")).to_contain_text("bad.jsonl, line 2: not a JSON object")
    drop(page, "picture.png", "x")
    expect(page.get_by_role("alert")).to_contain_text("reads .txt, .jsonl and .csv")


def test_files_of_other_encodings_are_read_and_guesses_are_said(page):
    rows = f"id;text\nÉté;Köln {words_of(5)}\n2;{words_of(0)}\n"
    for encoding in ("utf-8-sig", "utf-16", "cp1252"):
        drop(page, "some.csv", rows, encoding)
        expect(page.locator("#progress-text")).to_have_text("2 of 2 texts")
        expect(page.locator("#documents tbody tr").first).to_contain_text(f"ÉtéKöln {words_of(5)}")
        expect(page.locator("#documents tbody tr").first).to_contain_text("concept 5")
        if encoding != "cp1252":
            expect(page.get_by_role("alert")).to_be_hidden()
    expect(page.get_by_role("alert")).to_contain_text("some.csv is not UTF-8 and was read as Windows-1252")
    drop(page, "one.txt", words_of(4))
    expect(page.get_by_role("alert")).to_be_hidden()


def test_a_text_that_the_service_refuses_fails_alone(page):
    texts = [words_of(1), "a" * 20_001, words_of(2)]  # the service takes 20,000 characters
    drop(page, "some.jsonl", "".join(json.dumps({"text": text}) + "\n" for text in texts))
    expect(page.locator("#progress-text")).to_have_text("3 of 3 texts, 1 failed")
    rows = page.locator("#documents tbody tr")
    expect(rows.nth(0)).to_contain_text("concept 1")
    expect(rows.nth(1)).to_contain_text("at most 20,000 are allowed")
    expect(rows.nth(1).locator("td").last).to_have_css("text-wrap-mode", "wrap")  # the reason may be long
    expect(rows.nth(2)).to_contain_text("concept 2")
