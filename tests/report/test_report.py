"""longtail report as a user types it: what the page says, and what it refuses."""

from __future__ import annotations

import csv
import json
import re
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pyarrow.parquet
import pytest

import longtail
from contract.planted import planted
from longtail.core.explanation import TokenWeight
from longtail.core.predictions import Predictions
from longtail.errors import ParameterError
from longtail.metrics import BAND_NAMES
from longtail.report.case import Case
from longtail.report.label_findings import confusions, never, too_often
from longtail.report.page import Places, _script, _signed, write_report
from longtail.report.point_findings import highlighted, sampled_points
from longtail.report.probabilities import thresholds
from longtail.workflow.label_files import write_label_table

EVIL = [
    "</script><script>window.stolen=1</script>",
    "<img src=x onerror=window.stolen=1>",
    "\u202egnorw \u2066x",
    "a & b",
]
NAMES = [*EVIL, '"quoted" \' {{ 7 * 7 }}', "plain"]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    at = tmp_path_factory.mktemp("report")
    train, test = planted(90), planted(60, seed=1)
    features = longtail.TextFeatures(min_df=1, max_df=1.0)
    longtail.TextPipeline(features=features).fit(train.texts, train.Y, label_names=NAMES).save(at / "model")
    poor = longtail.TextPipeline(model=longtail.Popularity(), features=features)
    poor.fit(train.texts, train.Y, label_names=NAMES).save(at / "poor")
    for name, data in (("train", train), ("test", test)):
        texts = [f"<b>{text}</b> <script>window.stolen=1</script>" for text in data.texts]
        longtail.write_dataset(longtail.Dataset(data.Y, texts=texts, label_names=NAMES), at / f"{name}.jsonl")
    return at


@pytest.fixture(scope="module")
def written(files):
    """A report with everything, made once: the folder of its three files."""
    folder = files / "out"
    folder.mkdir()
    program = [sys.executable, "-m", "longtail.app.cli", "report", files / "model", files / "test.jsonl"]
    more = ["--train", files / "train.jsonl", "--against", files / "poor", "--out", folder / "report.html"]
    done = subprocess.run([*map(str, program + more)], capture_output=True, text=True, check=True)
    assert "wrote" in done.stderr
    return folder


def test_a_report_says_what_evaluate_says_and_runs_no_foreign_text(cli, files, written):
    numbers, page = json.loads((written / "report.json").read_text()), (written / "report.html").read_text()
    _, shown, _ = cli("evaluate", files / "model", files / "test.jsonl", "--train", files / "train.jsonl", "--json")
    for row in numbers["metrics"]["rows"]:
        assert row["value"] == pytest.approx(json.loads(shown)[row["name"]], abs=0.005)
    assert numbers["metrics"]["others"] == ["poor"]
    assert numbers["metrics"]["rows"][0]["others"][0]["beyond"]
    with open(written / "labels.csv", newline="") as file:
        assert [row["label"] for row in csv.DictReader(file)] == NAMES
    assert "<img src=x" not in page
    assert page.count("</script>") == 2  # the data of the table, and its script
    assert "\u202e" not in page
    assert not re.search(r"(src|href)=[\"']?(http|//)", page)
    assert len(re.findall(r"<svg [^>]*role=\"img\"[^>]*><title[^>]*>[^<]+</title><desc[^>]*>[^<]+</desc>", page)) == 5
    assert len(page) < 2_000_000


def test_predictions_without_a_model_are_reported_and_never_over_another_file(cli, files, tmp_path):
    assert cli("predict", files / "model", files / "test.jsonl", "--out", files / "p.jsonl")[0] == 0
    (tmp_path / "r-labels.csv").write_text("precious")
    code, _, err = cli("report", files / "p.jsonl", files / "test.jsonl", "--out", tmp_path / "r.html")
    assert (code, "r-labels.csv exists" in err) == (2, True)
    assert [file.name for file in tmp_path.iterdir()] == ["r-labels.csv"]
    code, _, err = cli("report", files / "p.jsonl", files / "test.jsonl", "--out", tmp_path / "r.html", "--overwrite")
    assert (code, "give --train" in err) == (0, True)
    assert (tmp_path / "r-labels.csv").read_text() != "precious"
    assert "r-labels.csv beside this page" in (tmp_path / "r.html").read_text()
    assert cli("report", files / "p.jsonl", files / "test.jsonl", "--out", tmp_path / "second.html")[0] == 0
    numbers = json.loads((tmp_path / "r.json").read_text())
    assert (numbers["bands"], numbers["propensity"], numbers["metrics"]["others"]) == ([], None, [])


def test_what_cannot_be_reported_is_said_and_nothing_is_written(cli, files, tmp_path):
    data = planted(20)
    fewer = longtail.TextPipeline(features=longtail.TextFeatures(min_df=1, max_df=1.0))
    fewer.fit(data.texts, data.Y[:, :5], label_names=NAMES[:5]).save(tmp_path / "fewer")
    bare = longtail.Dataset(np.zeros((20, 6)), texts=data.texts, label_names=NAMES)
    longtail.write_dataset(bare, tmp_path / "bare.jsonl")
    out = tmp_path / "out"
    out.mkdir()
    for arguments, said in (
        ((files / "model", files / "test.jsonl", "--against", tmp_path / "fewer"), "only one of them has 'plain'"),
        ((files / "model", tmp_path / "bare.jsonl"), "no point has a label"),
        ((files / "nowhere", files / "test.jsonl"), "does not exist"),
    ):
        code, _, err = cli("report", *arguments, "--out", out / "r.html")
        assert (code, said in err) == (2, True), err
    code, _, err = cli("report", files / "model", files / "test.jsonl", "--out", out / "r.html", "--budget", "-1")
    assert (code, "budget is -1.0" in err) == (2, True), err
    code, _, err = cli("report", files / "model", files / "test.jsonl", "--out", out / "r.pdf")
    assert (code, "unsupported extension '.pdf'" in err) == (2, True)
    assert list(out.iterdir()) == []


def test_a_report_never_overwrites_an_input(cli, files, tmp_path):
    for name in ("labels.csv", "report.json"):  # what goes beside report.html
        (tmp_path / name).write_text("precious")
        for option in ("--train", "--against"):
            arguments = (files / "model", files / "test.jsonl", option, tmp_path / name, "--overwrite")
            code, _, err = cli("report", *arguments, "--out", tmp_path / "report.html")
            assert (code, f"{name} is the input" in err) == (2, True), err
        assert (tmp_path / name).read_text() == "precious"
    assert not (tmp_path / "report.html").exists()


def test_a_report_names_parameters_as_the_card_does_and_no_places_of_this_machine(cli, files, written):
    numbers = json.loads((written / "report.json").read_text())
    card = json.loads(cli("info", files / "model", "--json")[1])
    assert numbers["model"]["parameters"].keys() == (card["changed parameters"] | card["default parameters"]).keys()
    assert str(files) not in (written / "report.html").read_text()
    assert numbers["about"]["test data"] == f"{files.name}/test.jsonl"


def case(labels, Y, names=("a", "b", "c", "d")):
    labels = np.asarray(labels, np.int32)
    scores = np.tile(np.linspace(1, 0.1, labels.shape[1], dtype=np.float32), (len(labels), 1))
    counts = np.full(len(names), 10)
    data = longtail.Dataset(np.asarray(Y), X=np.ones((len(labels), 1)), label_names=list(names))
    return Case("t", Predictions(labels, scores), data, list(names), counts=counts, n_points=40)


def test_labels_to_look_at():
    # b is suggested for all points and right for one; d is never suggested; a is missed where b is suggested
    found = case([[1, 2]] * 4, [[1, 0, 0, 0], [1, 0, 0, 0], [1, 0, 0, 0], [0, 1, 1, 1]])
    assert [(row["name"], row["wrong"]) for row in too_often(found)] == [("b", 3), ("c", 3)]
    assert [row["name"] for row in never(found)["labels"]] == ["a", "d"]
    assert [(row["missed"], row["suggested"], row["points"]) for row in confusions(found)] == [("a", "b", 3)]
    # c for d counts 3 whole points; a and b for c and d 4 halves each: fewer parts, more points
    found = case([[3, 0]] * 3 + [[2, 3]] * 4, [[0, 0, 1, 0]] * 3 + [[1, 1, 0, 0]] * 4)
    assert [row["points"] for row in confusions(found)] == [4, 4, 4, 4, 3]


def test_a_point_is_not_among_the_worst_and_the_best():
    for n in (1, 2, 3, 40):
        found = case([[0, 1]] * n, [[1, 0, 1, 0]] * n)
        sampled = sampled_points(found, None)
        ids = [point["id"] for kind in ("worst", "best") for point in sampled[kind]]
        assert len(ids) == len(set(ids)) == {1: 1, 2: 2, 3: 2, 40: 8}[n]


def test_differences_that_round_to_zero_have_no_sign():
    assert [_signed(value) for value in (-0.04, 0.04, -0.06, 10.0)] == ["0.0", "0.0", "\N{MINUS SIGN}0.1", "+10.0"]


def test_thresholds_agree_with_counting_one_by_one():
    rng = np.random.default_rng(0)
    labels = np.stack([rng.permutation(4)[:3] for _ in range(200)])
    Y = rng.random((200, 4)) < 0.4
    found, odds = case(labels, Y.astype(int)), rng.normal(size=(200, 3))
    for row in thresholds(found, odds)["curve"][::12]:
        chosen = [(i, j) for i in range(200) for j in range(3) if 1 / (1 + np.exp(-odds[i, j])) >= row["threshold"]]
        right = sum(Y[i, labels[i, j]] for i, j in chosen)
        assert row["precision"] == pytest.approx(100 * right / max(len(chosen), 1))
        assert row["recall"] == pytest.approx(100 * right / Y.sum())
    wanted = thresholds(replace(found, budget=0.7), odds)
    assert wanted["wanted labels per point"] == 0.7
    assert wanted["budget"]["labels per point"] == 0.7
    assert wanted["budget"]["threshold"] > thresholds(found, odds)["budget"]["threshold"]


def test_a_budget_beyond_the_candidates_is_refused_and_many_observed_labels_are_not():
    found = case([[0, -1], [1, 2]], [[1, 1, 1, 1], [1, 1, 1, 1]])  # 3 candidates for 8 observed labels
    odds = np.array([[0.0, -np.inf], [1.0, -1.0]])
    with pytest.raises(ParameterError, match=r"budget is 1\.9, but there are only 1\.5 candidates per point"):
        thresholds(replace(found, budget=1.9), odds)
    assert thresholds(found, odds)["budget"] is None
    assert thresholds(replace(found, budget=1.5), odds)["budget"]["labels per point"] == 1.5


def test_a_budget_may_ask_for_more_labels_than_the_report_looks_at(cli, files, tmp_path):
    code, _, err = cli("report", files / "model", files / "test.jsonl", "--out", tmp_path / "r.html", "--budget", "30")
    assert (code, "--budget is 30.0, but there are only 6 candidates per point" in err) == (2, True), err
    assert list(tmp_path.iterdir()) == []
    wide = longtail.make_longtail(n_points=150, n_features=80, n_labels=60, random_state=0)
    longtail.DiSMEC().fit(wide.train.X, wide.train.Y, label_names=wide.train.label_names).save(tmp_path / "wide")
    longtail.write_dataset(wide.test, tmp_path / "test")
    code, _, err = cli("report", tmp_path / "wide", tmp_path / "test", "--out", tmp_path / "r.html", "--budget", "30")
    assert code == 0, err
    found = json.loads((tmp_path / "r.json").read_text())["thresholds"]["budget"]
    assert found["labels per point"] == pytest.approx(30, abs=1)


def test_words_are_highlighted_by_their_weight():
    tokens = [TokenWeight("big", 0, 3, 0.6), TokenWeight("bad", 8, 11, -0.4)]
    runs = highlighted("big and bad", tokens)
    assert [(run["text"], run["step"]) for run in runs] == [("big", 4), (" and ", 0), ("bad", -3)]
    assert highlighted("", ()) == []


def test_of_a_long_text_the_beginning_and_the_words_that_matter_are_shown():
    text = "title of the text " + "nothing " * 400 + "the word that matters, here " + "nothing " * 200
    place = text.index("matters")
    shown = "".join(run["text"] for run in highlighted(text, [TokenWeight("matters", place, place + 7, 1.0)]))
    assert shown.startswith("title of the text")
    assert "the word that matters, here" in shown
    assert shown.count("…") == 2
    assert len(shown) < 720
    early = "".join(run["text"] for run in highlighted(text, [TokenWeight("title", 0, 5, 1.0)]))
    assert text.startswith(early.removesuffix("…").rstrip())


def test_a_page_with_very_many_long_names_stays_small():
    n = 20_000
    counts = list(range(n, 0, -1))
    columns = {"label": [f"{i} {'長' * 110} </script>" for i in range(n)], "band": ["head"] * n}
    columns |= dict.fromkeys(("training_count", "test_count", "predicted_count", "hits"), counts)
    columns |= {name: [0.123456] * n for name in ("precision", "recall", "f1")}
    found = _script(columns)
    assert len(found["table_data"].encode()) < 1_500_000
    rows = json.loads(found["table_data"])["rows"]
    assert 1000 < found["table_rows"] == len(rows) < found["all_rows"] == n
    assert rows[0][0].startswith("0 ")
    assert "</script>" not in found["table_data"]
    assert rows[0][0].endswith("</script>")


# --- in a real browser: no error, nothing fetched, a table that searches and sorts, no accessibility fault ------------


PAPER = {"width": 688, "height": 1000}  # A4 less its margins


def test_tables_fit_on_paper_and_their_heads_can_be_repeated(written, browser):
    page = browser.new_page(viewport=PAPER)
    page.emulate_media(media="print")
    page.goto((written / "report.html").as_uri())
    wide = "tables => tables.filter(own => own.scrollWidth > own.clientWidth + 1).map(own => own.ariaLabel)"
    assert page.locator(".scroll").evaluate_all(wide) == []
    # Chromium repeats the head of a table on the next sheet, but not the buttons in it.
    shown = "buttons => [...new Set(buttons.map(own => getComputedStyle(own).display))]"
    assert page.locator("thead button").evaluate_all(shown) == ["contents"]
    sizes = "elements => elements.map(own => parseFloat(getComputedStyle(own).fontSize))"
    text = page.locator("#bands > p").evaluate_all(sizes)[0]
    small = page.locator("figcaption, .quiet, .text, td, dd").evaluate_all(sizes)
    assert max(small) <= text  # what is small on the screen is small on paper
    assert page.locator("#label-count").is_visible()  # which says how many labels are not on paper
    page.close()


def test_every_table_has_a_name_of_its_own(tmp_path):
    found = case([[1, 2]] * 40, [[1, 0, 0, 0]] * 30 + [[0, 1, 1, 1]] * 10)  # suggested too often, and never
    write_report(found, Places.of(tmp_path / "r.html"), about=dict)
    names = re.findall(r'role="region" aria-label="([^"]+)"', (tmp_path / "r.html").read_text())
    assert {"Table of labels suggested too often", "Table of labels never suggested"} < set(names)
    assert len(names) == len(set(names))


def test_labels_that_are_numbers_are_sorted_as_numbers(tmp_path, browser):
    found = case([[0, 1]] * 30, [[1, 0, 1, 0]] * 30, ("10", "2", "1", "3"))
    write_report(found, Places.of(tmp_path / "r.html"), about=dict)
    page = browser.new_page()
    page.goto((tmp_path / "r.html").as_uri())
    page.get_by_role("button", name="label", exact=True).click()
    assert page.locator("#label-table tbody th").all_inner_texts() == ["1", "2", "3", "10"]
    page.close()


def test_names_that_look_like_formulas_are_text_in_a_spreadsheet_and_unchanged_elsewhere(tmp_path):
    names = ["=1+1", "+a", "-b", "@c", "\td", "e=f"]
    columns = {"label": names, "name": names, "f1": [-0.5] * 6}
    for file in (tmp_path / "l.csv", tmp_path / "l.parquet"):
        write_label_table(columns, file)
    with open(tmp_path / "l.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    for key in ("label", "name"):
        assert [row[key] for row in rows] == ["'=1+1", "'+a", "'-b", "'@c", "'\td", "e=f"]
    assert {row["f1"] for row in rows} == {"-0.5"}
    assert pyarrow.parquet.read_table(tmp_path / "l.parquet").to_pydict() == columns


def test_the_model_is_marked_on_the_frontier_and_every_psp_has_macro_f1_and_coverage_beside_it(written):
    numbers, page = json.loads((written / "report.json").read_text()), (written / "report.html").read_text()
    own = {row["name"]: row["value"] for row in numbers["metrics"]["rows"]}
    assert f"the model has P@1 {own['P@1']:.1f} and PSP@1 {own['PSP@1']:.1f}." in page
    assert {"macro-F1@5", "coverage@5"} <= own.keys()
    assert {"macro-F1@5", "coverage@5"} <= numbers["frontier"][0].keys()


def test_the_page_works_offline(written, browser):
    faults, fetched = [], []
    for scheme, width in (("light", 1200), ("dark", 390)):
        page = browser.new_page(color_scheme=scheme, viewport={"width": width, "height": 800})
        page.on("console", lambda message: faults.append(message.text))
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("request", lambda request: fetched.append(request.url))
        page.goto((written / "report.html").as_uri())
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
        if width > 1000:  # a phone has no room for the band
            page.get_by_role("button", name="band").click()
            bands = [BAND_NAMES.index(band) for band in page.locator("#label-table tbody td.band").all_inner_texts()]
            assert bands == sorted(bands)
        axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="install longtail[dev]").Axe()
        found = axe.run(page).response["violations"]
        assert [(fault["id"], fault["nodes"][0]["html"][:200]) for fault in found] == []
        page.close()
    assert faults == []
    assert {url.partition(":")[0] for url in fetched} <= {"file", "data"}
