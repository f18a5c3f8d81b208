"""Probabilities at the command line: who has them, how a model gets them, what is refused."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

import longtail
from contract.planted import planted
from longtail.app.cli import app
from longtail.core.calibration import Calibration, CalibrationOfGroups
from longtail.errors import DataError, ParameterError


def call(*arguments):
    result = CliRunner().invoke(app, [str(a) for a in arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result


def write(folder, name, data):
    lines = [
        json.dumps({"text": text, "labels": [f"name {i}" for i in labels]})
        for text, labels in zip(data.texts, data.lists, strict=True)
    ]
    (folder / name).write_text("\n".join(lines) + "\n")
    return folder / name


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("calibrate")
    write(folder, "train.jsonl", planted(60))
    write(folder, "unseen.jsonl", planted(40, seed=5))
    (folder / "strange.jsonl").write_text('{"text": "never seen", "labels": ["name 1"]}\n' * 3)
    (folder / "bare.jsonl").write_text('{"text": "w00 w01", "labels": []}\n' * 3)
    call("train", folder / "train.jsonl", "--model", "dismec", "--set", "features.min_df=1", "--out", folder / "m")
    return folder


def test_a_saved_model_gets_probabilities_and_keeps_them(place):
    out = place / "calibrated"
    said = call("calibrate", place / "m", place / "unseen.jsonl", "--out", out).stderr
    assert "calibrated on 40 points; ECE@5 is" in said
    text = planted(1, seed=9).texts[0]
    found = json.loads(call("predict", out, "--text", text, "--probabilities", "--json").stdout)
    assert all(0 < score <= 1 for score in found["scores"])
    plain = json.loads(call("predict", out, "--text", text, "--json").stdout)
    assert plain["labels"] == found["labels"]
    assert plain["scores"] != found["scores"]
    file = place / "p.jsonl"
    call("predict", out, place / "unseen.jsonl", "--out", file, "--probabilities", "-k", 2)
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    assert all(0 < score <= 1 for row in rows for score in row["scores"])


def test_a_model_without_probabilities_names_the_command_that_gives_them(place):
    with pytest.raises(ParameterError, match=r"m has no probabilities; .*longtail calibrate .*m DATA$"):
        call("predict", place / "m", "--text", "w00", "--probabilities")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("train.jsonl", "the points that the model was trained on"),
        ("bare.jsonl", "no point has"),
        ("strange.jsonl", "the model predicts no label"),
    ],
)
def test_points_that_teach_nothing_leave_the_model_as_it_is(place, data, message):
    with pytest.raises(DataError, match=message):
        call("calibrate", place / "m", place / data)
    assert not longtail.load_model(place / "m").has_probabilities()


def test_training_calibrates_if_asked_to(place):
    out = place / "both"
    more = ("--set", "features.min_df=1", "--calibrate", "yes", "--out", out)
    said = call("train", place / "train.jsonl", "--model", "dismec", *more).stderr
    assert "probabilities: calibrated on 6 points that a second training left out" in said
    assert longtail.load_model(out).has_probabilities()
    with pytest.raises(ParameterError, match="--calibrate is 'maybe'"):
        call("train", place / "train.jsonl", "--model", "dismec", "--calibrate", "maybe", "--out", place / "x")
    assert not (place / "x").exists()


def test_sets_and_labels_chosen_together(place):
    out, file = place / "calibrated", place / "sets.jsonl"
    if not out.exists():
        call("calibrate", place / "m", place / "unseen.jsonl", "--out", out)
    data = place / "unseen.jsonl"
    said = call("predict", out, data, "--out", file, "--budget", 1.5).stderr
    assert "wrote 40 sets of 1." in said
    assert sum(len(json.loads(line)["labels"]) for line in file.read_text().splitlines()) <= 70
    call("predict", out, data, "--out", file, "--overwrite", "--probabilities", "--threshold", 1e-9)
    sets = longtail.load_model(out).predict_sets(planted(40, seed=5).texts, threshold=1e-9)
    assert [json.loads(line)["labels"] for line in file.read_text().splitlines()] == sets.names
    assert max(map(len, sets.names)) == 6, "all that are likely enough, not the first five"
    call("predict", out, data, "--out", file, "--overwrite", "--recall", 0.5)
    call("predict", out, data, "--out", file, "--overwrite", "--optimise", "macro-f1", "-k", 2)
    assert all(len(json.loads(line)["labels"]) == 2 for line in file.read_text().splitlines())
    for options, message in (
        (("--budget", 2, "--recall", 0.5), "--budget and --recall cannot be combined"),
        (("--probabilities", "--threshold", 1.5), "^--threshold is 1.5, but must be a probability above 0 and at"),
        (("--probabilities", "--threshold", 0), "^--threshold is 0.0, but must be a probability"),
        (("--threshold", "nan"), "^--threshold is nan, but must be a number"),
        (("--recall", 0.9999), "^--recall is 0.9999, which no threshold reaches"),
        (("--recall", 1.5), "^--recall is 1.5, but must be a number above 0 and below 1"),
        (("--recall", 0.5, "--confidence", 2), "^--confidence is 2.0, but must be a number above 0 and below 1"),
        (("--budget", 0), "^--budget is 0.0, but must be a number greater than 0"),
        (("--budget", 50), "^--budget is 50.0, but there are only"),
        (("--budget", 2, "-k", 2), "-k cannot be combined with --budget"),
        (("-k", 0), "^-k is 0, but must be at least 1"),
        (("--recall", 0.5, "-k", 2), "-k cannot be combined with --recall"),
        (("--confidence", 0.5), "--confidence is about --recall"),
        (("--optimise", "psp"), "--optimise is 'psp'"),
    ):
        with pytest.raises(ParameterError, match=message):
            call("predict", out, data, "--out", place / "never.jsonl", *options)
    assert not (place / "never.jsonl").exists()
    with pytest.raises(ParameterError, match="give DATA, not --text"):
        call("predict", out, "--text", "w00 w01", "--optimise", "coverage")


def test_more_candidates_allow_more_labels_and_more_recall(place):
    out, data = place / "narrow", place / "unseen.jsonl"
    call("calibrate", place / "m", data, "--out", out, "--candidates", 2)
    with pytest.raises(ParameterError, match=r"only 2 candidates per point; .*longtail calibrate --candidates"):
        call("predict", out, data, "--out", place / "never.jsonl", "--budget", 3)
    call("calibrate", out, data, "--candidates", 6)
    call("predict", out, data, "--out", place / "wide.jsonl", "--budget", 3)
    with pytest.raises(ParameterError, match=r"^--candidates is 0, but must be a whole number of at least 1"):
        call("calibrate", out, data, "--candidates", 0)


def test_an_order_in_favour_of_rare_labels_is_named_and_its_file_can_be_judged(place):
    out, data, file = place / "rerank", place / "unseen.jsonl", place / "reranked.jsonl"
    features = ("--set", "features.min_df=1")
    call("train", place / "train.jsonl", "--model", "propensityrerank", *features, "--set", "exponent=1", "--out", out)
    shown = call("predict", out, "--text", "w00 w01", "--probabilities").stdout
    assert "labels, best first (rare ones favoured, exponent 1)" in shown
    call("predict", out, data, "--out", file, "--probabilities", "-k", 6)
    rows = [json.loads(line)["scores"] for line in file.read_text().splitlines()]
    assert any(row != sorted(row, reverse=True) for row in rows), "else this would show nothing"
    of_file = json.loads(call("evaluate", file, data, "--train", place / "train.jsonl", "--json").stdout)
    assert of_file == pytest.approx(json.loads(call("evaluate", out, data, "--json").stdout))


def test_probabilities_are_listed_from_the_highest_whatever_the_ranking(place):
    """As in the service: with one function per group of label frequency, the order of scores is another."""
    model = longtail.load_model(place / "m").calibrate(planted(40, seed=5).texts, planted(40, seed=5).Y)
    steep = Calibration(np.array([-9.0, 9.0]), np.array([-9.0, 9.0]))
    flat = Calibration(np.array([-9.0, 9.0]), np.array([-0.01, 0.01]))
    edge = np.array([int(np.median(model.label_counts_))])
    model.probabilities_ = replace(model.probabilities_, functions=CalibrationOfGroups([steep, flat]), edges=edge)
    model.save(place / "groups")
    file = place / "ordered.jsonl"
    call("predict", place / "groups", place / "unseen.jsonl", "--out", file, "--probabilities", "-k", 3)
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    assert all(row["scores"] == sorted(row["scores"], reverse=True) for row in rows)
    ranked = model.predict(planted(40, seed=5).texts, k=6, calibrated=True)
    assert (np.diff(ranked.scores) > 0).any(), "else this would show nothing"
    best = [row[np.argsort(-own, kind="stable")[:3]] for row, own in zip(ranked.labels, ranked.scores, strict=True)]
    assert [row["labels"] for row in rows] == [[f"name {label}" for label in row] for row in best]


def test_a_model_whose_scores_are_probabilities_says_what_a_budget_needs(place):
    out = place / "popular"
    call("train", place / "train.jsonl", "--model", "popularity", "--out", out)
    needed = r"popular has probabilities, but --budget and --recall also need points .*DATA$"
    with pytest.raises(ParameterError, match=needed):
        call("predict", out, place / "unseen.jsonl", "--out", place / "never.jsonl", "--budget", 2)
    said = call("train", place / "train.jsonl", "--model", "popularity", "--calibrate", "yes", "--out", place / "both2")
    assert "probabilities: calibrated on 6 points that a second training left out" in said.stderr
    call("predict", place / "both2", place / "unseen.jsonl", "--out", place / "sets2.jsonl", "--budget", 2)


def test_options_of_the_choice_are_named_as_they_were_typed(place):
    for options, message in (
        (("--minutes", 0), "^--minutes is 0.0, but must be a number greater than 0"),
        (("--price", -1), "^--price is -1.0, but must be a number of at least 0"),
        (("--model", "dismec", "--minutes", 1), "^dismec has no --minutes, which is for the choice of a model"),
        (("--model", "dismec", "--price", 1), "^dismec has no --price, which is for .*, propensityrerank and ranknet"),
        (("--model", "ranknet", "--price", 1, "--set", "max_precision_loss=2"), "^--price and --set max_precision_"),
    ):
        with pytest.raises(ParameterError, match=message):
            call("train", place / "train.jsonl", "--out", place / "never", *options)
