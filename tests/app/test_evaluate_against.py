"""longtail evaluate --against and --labels-out as a user types them."""

from __future__ import annotations

import csv
import json

import numpy as np
import pyarrow.parquet
import pytest

import longtail
from contract.planted import planted
from longtail.metrics import Matches, paired_bootstrap, terms

NAMES = ["zero", "one", "two", "three", "four", "five"]


@pytest.fixture
def models(tmp_path):
    train, test = planted(60), planted(40, seed=1)
    longtail.DiSMEC().fit(train.X, train.Y, label_names=NAMES).save(tmp_path / "good")
    longtail.Popularity().fit(train.X, train.Y, label_names=NAMES).save(tmp_path / "poor")
    order = np.arange(6)[::-1]
    longtail.DiSMEC().fit(train.X, train.Y[:, order], label_names=[NAMES[i] for i in order]).save(tmp_path / "turned")
    longtail.DiSMEC().fit(train.X, train.Y[:, :5], label_names=NAMES[:5]).save(tmp_path / "fewer")
    longtail.DiSMEC().fit(train.X, train.Y).save(tmp_path / "nameless")
    longtail.write_dataset(longtail.Dataset(test.Y, X=test.X, label_names=NAMES), tmp_path / "test")
    return tmp_path


def test_a_better_model_is_better_beyond_chance(cli, models):
    at = models
    code, out, err = cli(
        "evaluate", at / "good", at / "test", "--against", at / "poor", "--against", at / "turned", "--json"
    )
    assert (code, err) == (0, "")
    found = json.loads(out)["against"]
    poor, same = found[str(at / "poor")], found[str(at / "turned")]
    assert poor["P@1"]["low"] > 0
    assert poor["PSP@5"]["value"] > 0
    assert same["P@1"] == {"value": 0, "low": 0, "high": 0}  # the same model with its labels in another order
    code, out, _ = cli("evaluate", at / "good", at / "test", "--against", at / "poor")
    assert (code, "beyond chance" in out) == (0, True)


def test_predictions_in_a_file_can_be_compared(cli, models):
    at = models
    assert cli("predict", at / "poor", at / "test", "--out", at / "poor.jsonl")[0] == 0
    shown = []
    for other in (at / "poor", at / "poor.jsonl"):
        code, out, _ = cli("evaluate", at / "good", at / "test", "--against", other, "--json")
        assert code == 0
        shown.append(json.loads(out)["against"][str(other)])
    assert shown[0] == shown[1]


def test_sets_in_a_file_are_measured(cli, models):
    at, test = models, planted(40, seed=1)
    lines = [json.dumps({"labels": [NAMES[i] for i in row], "scores": [1.0] * len(row)}) for row in test.lists]
    lines[0] = '{"labels": [], "scores": []}'
    (at / "sets.jsonl").write_text("\n".join(lines) + "\n")
    code, out, _ = cli("evaluate", at / "sets.jsonl", at / "test", "--sets", "--json")
    found = json.loads(out)["sets"]
    assert (code, found["micro-P"], found["example-R"]) == (0, 100.0, 97.5)
    assert "micro" in cli("evaluate", at / "sets.jsonl", at / "test", "--sets")[1]
    code, _, err = cli("evaluate", at / "good", at / "test", "--sets")
    assert (code, "--sets needs a predictions file" in err) == (2, True)


def test_models_with_other_labels_are_refused(cli, models):
    at = models
    for other, said in (
        ("fewer", "only one of them has 'five'"),
        ("nameless", "without label names"),
        ("x", "does not exist"),
    ):
        code, out, err = cli(
            "evaluate", at / "good", at / "test", "--against", at / other, "--labels-out", at / "l.csv"
        )
        assert (code, out) == (2, "")
        assert said in err
        assert not (at / "l.csv").exists()


def test_tables_of_labels_agree(cli, models):
    at = models
    for name in ("labels.csv", "labels.parquet"):
        assert cli("evaluate", at / "good", at / "test", "--labels-out", at / name)[0] == 0
    with open(at / "labels.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    table = pyarrow.parquet.read_table(at / "labels.parquet").to_pylist()
    assert [row["label"] for row in rows] == [row["label"] for row in table] == NAMES
    assert [int(row["hits"]) for row in rows] == [row["hits"] for row in table]
    assert sum(row["test_count"] for row in table) == planted(40, seed=1).Y.nnz
    assert {row["band"] for row in table} <= {"head", "torso", "tail"}
    code, _, err = cli("evaluate", at / "good", at / "test", "--labels-out", at / "labels.csv")
    assert (code, "exists" in err) == (2, True)
    code, _, err = cli("evaluate", at / "good", at / "test", "--labels-out", at / "labels.xlsx")
    assert (code, "unsupported extension" in err) == (2, True)


def test_a_table_of_labels_never_overwrites_an_input(cli, models):
    at = models
    assert cli("predict", at / "poor", at / "test", "--out", at / "poor.csv")[0] == 0
    before = (at / "poor.csv").read_bytes()
    for arguments in ((at / "poor.csv", at / "test"), (at / "good", at / "test", "--against", at / "poor.csv")):
        code, out, err = cli("evaluate", *arguments, "--labels-out", at / "poor.csv", "--overwrite")
        assert (code, out, "poor.csv is the input" in err) == (2, "", True)
    assert (at / "poor.csv").read_bytes() == before


def test_a_test_set_without_labels_is_refused(cli, models):
    test = planted(10, seed=1)
    longtail.write_dataset(longtail.Dataset(np.zeros((10, 6)), X=test.X, label_names=NAMES), models / "bare")
    code, _, err = cli("evaluate", models / "good", models / "bare")
    assert (code, "no point has a label" in err) == (2, True)


@pytest.mark.parametrize("n", [1, 2, 6])
def test_few_points_prove_nothing(cli, models, n):
    """One point resampled is the same point again: an interval without width, beyond chance in everything."""
    test = planted(40, seed=1)
    few = longtail.Dataset(test.Y[:n], X=test.X[:n], label_names=NAMES)
    longtail.write_dataset(few, models / "few")
    code, out, _ = cli("evaluate", models / "good", models / "few", "--against", models / "poor", "--json")
    found = json.loads(out)["against"][str(models / "poor")]
    assert (code, found["P@1"]["value"] > 0) == (0, True)
    assert all(own["low"] < 0 < own["high"] for own in found.values())
    assert all(own["low"] >= -100 and own["high"] <= 100 for own in found.values())


def test_the_paired_interval_is_narrower_and_finds_a_small_difference():
    rng = np.random.default_rng(0)
    truth = np.eye(2)[np.zeros(400, int)]
    easy = rng.random(400) < 0.5
    better = easy | (rng.random(400) < 0.05)

    def matches(right):
        labels = np.where(right, 0, 1).astype(np.int32)[:, None]
        return Matches.of(longtail.Predictions(labels, np.ones(labels.shape, np.float32)), truth)

    own, other = ({"P@1": terms(matches(right), "P@1")} for right in (better, easy))
    found = paired_bootstrap(own, other)["P@1"]
    assert found.value == pytest.approx(better.mean() - easy.mean())
    assert 0 < found.low < found.value < found.high < 0.1
    assert paired_bootstrap(other, other)["P@1"] == (0, 0, 0)
