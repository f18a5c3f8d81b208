"""The card of a model: what it shows in each form, kept evaluations, and records that are damaged or out of place."""

from __future__ import annotations

import json
import os
import re

import pytest

from app.folders import everything
from longtail import Popularity, load_model
from longtail.app.card import sections
from longtail.core import evaluations
from longtail.errors import OutputError


@pytest.fixture
def trained(cli, texts, monkeypatch):
    monkeypatch.chdir(texts)
    code, _, err = cli(
        "train",
        "train.jsonl",
        "-m",
        "popularity",
        "--set",
        "features.min_df=1",
        "--set",
        "features.max_df=1.0",
        "-o",
        "m",
    )
    assert code == 0, err
    return texts


def card(cli, *more):
    code, out, err = cli("info", "m", "--json", *more)
    assert code == 0, err
    return json.loads(out), err


def test_the_card_has_data_date_seconds_and_changed_parameters_first(cli, trained):
    found, err = card(cli)
    assert err == ""
    assert (found["data"], found["training points"], found["model"]) == (
        "train.jsonl",
        80,
        "TextPipeline of Popularity",
    )
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", found["date"])
    assert 0 < found["seconds"] < 60
    assert found["changed parameters"] == {"features.max_df": 1.0, "features.min_df": 1}
    assert found["default parameters"]["features.lowercase"] is True
    assert found["evaluations"] == []
    text = cli("info", "m")[1]
    assert text.index("features.min_df = 1") < text.index("features.lowercase = True")
    assert "train.jsonl" in text
    assert "UTC, in" in text


def test_no_two_rows_of_a_card_have_the_same_name(cli, trained):
    # As AutoModel leaves it; `data` of the training is the name of a file.
    chosen = card(cli)[0] | {"choice": {"data": "looked at 80 points", "trials": "tried popularity"}}
    names = [name for section in sections(chosen).values() for name in section]
    assert len(set(names)) == len(names)
    assert sections(chosen)["Choice"] == {"chosen on": "looked at 80 points", "trials": "tried popularity"}


def test_a_card_says_what_a_re_ranker_chose(cli, trained):
    words = ("train", "train.jsonl", "-m", "propensityrerank", "--base", "dismec", "--overwrite", "-o", "m")
    settings = ("--set", "features.min_df=1", "--set", "features.max_df=1.0", "--set", "dial=pw-cb:0.5")
    assert cli(*words, *settings)[0] == 0
    assert re.fullmatch(
        r"exponent [\d.e-]+ at price 1 of P@1, and (a base with pw-cb:0\.5|its base as it is)",
        card(cli)[0]["choice"]["choice"],
    )
    for nothing_chosen in ("max_precision_loss=null", "objective=macro-f1@5"):
        assert cli(*words, *settings[:4], "--set", nothing_chosen)[0] == 0
        assert card(cli)[0]["choice"] == {}


def test_a_card_says_where_probabilities_come_from(cli, trained):
    assert card(cli)[0]["probabilities"] == "from its scores"
    words = ("train", "train.jsonl", "-m", "dismec", "--set", "features.min_df=1", "--overwrite", "-o", "m")
    assert cli(*words)[0] == 0
    assert card(cli)[0]["probabilities"] == "none (longtail calibrate)"
    assert cli("calibrate", "m", "test.jsonl")[0] == 0
    assert re.fullmatch(r"calibrated on \d+ points", card(cli)[0]["probabilities"])


def test_kept_evaluations_are_listed_and_change_nothing_of_the_model(cli, trained):
    before = everything(trained / "m")
    code, out, err = cli("evaluate", "m", "test.jsonl", "--keep", "--json")
    assert code == 0
    assert "kept the figures in m/evaluation-" in err
    assert cli("evaluate", "m", trained / "train.jsonl", "--keep", "--propensity", "wikipedia")[0] == 0
    assert cli("evaluate", "m", "test.jsonl", "--keep")[0] == 0  # again: replaces its record
    found, _ = card(cli)
    here = f"{trained.name}/train.jsonl"
    assert [(one["data"], one["propensity"]) for one in found["evaluations"]] == sorted(
        [(here, "wikipedia"), ("test.jsonl", "default")]
    )
    kept = next(one for one in found["evaluations"] if one["data"] == "test.jsonl")
    assert kept["metrics"] == json.loads(out)
    assert kept["points"] == 80
    after = everything(trained / "m")
    assert {name: after[name] for name in before} == before
    assert len(after) == len(before) + 2  # no temporary files
    assert load_model("m").n_points_ == 80
    text = cli("info", "m")[1]
    assert f"{kept['metrics']['P@1']:.2f}" in text
    assert "train.jsonl (propensity wikipedia)" in text


def test_markdown_has_a_table_per_part(cli, trained):
    cli("evaluate", "m", "test.jsonl", "--keep")
    code, out, _ = cli("info", "m", "--markdown")
    assert code == 0
    titles = [line for line in out.splitlines() if line.startswith("#")]
    assert titles == ["# m", "## Evaluations", "## Model", "## Training", "## Parameters", "## Versions"]
    assert "| features.min_df | 1 | changed |" in out
    assert r"| features.token_pattern | (?u)\\b\[^\\W_\]" in out  # signs of Markdown are escaped
    widths = {line.replace(r"\|", "").count("|") for line in out.splitlines() if line.startswith("| test.jsonl")}
    assert widths == {12}


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text[: len(text) // 2],
        lambda text: text.replace('"points": 80', '"points": 81'),
        lambda text: "[]",
        lambda text: "[" * 100_000,
        lambda text: " " * (1 << 21) + text,
        lambda text: text.replace('"format": 1', '"format": 7'),
    ],
)
def test_a_damaged_record_is_named_and_the_rest_of_the_card_is_shown(cli, trained, damage):
    cli("evaluate", "m", "test.jsonl", "--keep")
    [file] = (trained / "m").glob("evaluation-*.json")
    file.write_text(damage(file.read_text()))
    found, err = card(cli)
    assert found["evaluations"] == []
    assert found["training points"] == 80
    assert err.count("\n") == 1
    assert f"warning: m/{file.name} was altered" in err
    assert "evaluate again with --keep" in err


def test_a_record_with_wrong_values_and_the_right_digest_is_refused(cli, trained):
    cli("evaluate", "m", "test.jsonl", "--keep")
    [file] = (trained / "m").glob("evaluation-*.json")
    content = json.loads(file.read_text())
    for wrong in (
        {"metrics": {"P@1": "x"}},
        {"metrics": {"P@1": 1e999}},
        {"points": "many"},
        {"bands": 3},
        {"data": []},
    ):
        changed = content | wrong
        file.write_text(json.dumps(changed | {"sha256": evaluations.json_digest(changed)}))
        found, err = card(cli)
        assert (found["evaluations"], "was altered" in err) == ([], True), wrong


def test_records_of_an_overwritten_model_are_not_shown_for_its_successor(cli, trained):
    cli("evaluate", "m", "test.jsonl", "--keep")
    assert cli("train", "train.jsonl", "-m", "popularity", "-o", "m", "--overwrite")[0] == 0
    found, err = card(cli)
    assert found["evaluations"] == []
    assert "is of an earlier model in this directory" in err
    cli("evaluate", "m", "test.jsonl", "--keep")
    found, err = card(cli)
    assert (len(found["evaluations"]), err) == (1, "")


def test_a_record_that_is_a_link_out_of_the_model_is_not_followed(cli, trained):
    (trained / "m" / f"evaluation-{'0' * 12}.json").symlink_to(trained / "test.jsonl")
    found, err = card(cli)
    assert found["evaluations"] == []
    assert "leads out of the directory" in err


def test_a_model_directory_that_cannot_be_written_is_said_before_the_work(cli, trained, monkeypatch):
    monkeypatch.setattr("os.access", lambda _, mode, **__: mode != os.W_OK)
    before = everything(trained / "m")
    code, out, err = cli("evaluate", "m", "nowhere.jsonl", "--keep")
    assert (code, out) == (2, "")
    assert "no permission to write to the folder m" in err
    assert everything(trained / "m") == before


def test_a_failed_write_leaves_the_old_record(cli, trained, monkeypatch):
    cli("evaluate", "m", "test.jsonl", "--keep")
    before = everything(trained / "m")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(evaluations, "write_synced", full)
    code, _, err = cli("evaluate", "m", "test.jsonl", "--keep")
    assert code == 2
    assert "could not be written (No space left on device)" in err
    assert everything(trained / "m") == before


def test_wrong_uses_are_one_line(cli, trained):
    assert (
        "--keep writes beside a model, but train.jsonl is not"
        in cli("evaluate", "train.jsonl", "test.jsonl", "--keep")[2]
    )
    assert "--markdown is for the card of a model" in cli("info", "train.jsonl", "--markdown")[2]
    assert "give one of them" in cli("info", "m", "--markdown", "--json")[2]


def test_models_without_a_training_record_have_a_card(cli, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model = Popularity().fit([[1.0], [2.0]], [[0], [1]])
    assert set(model.training_) == {"date", "seconds"}
    model.training_ = {"date": 5, "data": ["x"]}  # as a stranger may write
    model.save("m")
    found, err = card(cli)
    assert (err, "data" in found, "date" in found) == ("", False, False)
    assert "Popularity" in cli("info", "m")[1]


def test_keeping_needs_a_model(tmp_path):
    with pytest.raises(OutputError, match="does not exist"):
        evaluations.check_keepable(tmp_path / "nowhere")
