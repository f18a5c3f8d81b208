"""What `longtail predict` writes: any format, with columns of the input, above a threshold."""

from __future__ import annotations

import csv
import json

import pytest

import longtail


@pytest.fixture
def catalogue(cli, texts):
    """A model, and catalogue.csv with an id, a title and a text per point."""
    cli("train", texts / "train.jsonl", "-m", "dismec", "-o", texts / "m", "--set", "features.min_df=1")
    (texts / "catalogue.csv").write_text('id,title,text\nx1,"Fish, dried",w00 w01 w02\nx2,Lakes,w03 w04 w05\n')
    return texts


def test_a_csv_with_columns_of_the_input(cli, catalogue):
    command = ("predict", catalogue / "m", catalogue / "catalogue.csv", "-k", "2", "--keep", "id, title")
    code, out, _ = cli(*command, "--out", catalogue / "p.csv")
    assert (code, out) == (0, "")
    rows = list(csv.DictReader((catalogue / "p.csv").read_text(encoding="utf-8").splitlines()))
    assert [(row["id"], row["title"]) for row in rows] == [("x1", "Fish, dried"), ("x2", "Lakes")]
    assert [row["labels"].split(";")[0] for row in rows] == ["name 0", "name 1"]
    assert all(len(row["scores"].split(";")) == 2 for row in rows)
    code, _, err = cli(*command[:-1], "id,year", "--out", catalogue / "q.csv")
    assert code == 2
    assert "catalogue.csv: no column 'year'; columns are id, title, text" in err
    assert not (catalogue / "q.csv").exists()


def test_predictions_to_stdout(cli, catalogue):
    command = ("predict", catalogue / "m", catalogue / "catalogue.csv", "-k", "1", "--keep", "id", "--out", "-")
    code, out, err = cli(*command)
    assert code == 0
    rows = [json.loads(line) for line in out.splitlines()]
    assert [(row["id"], row["labels"]) for row in rows] == [("x1", ["name 0"]), ("x2", ["name 1"])]
    assert "wrote 2 x 1 predictions to stdout" in err


def test_a_threshold_leaves_low_scores_out(cli, catalogue):
    cli("predict", catalogue / "m", catalogue / "test.jsonl", "-o", catalogue / "all.jsonl")
    cli("predict", catalogue / "m", catalogue / "test.jsonl", "-o", catalogue / "some.jsonl", "--threshold", "0")
    names = longtail.load_model(catalogue / "m").label_names_
    found, some = (longtail.read_predictions(catalogue / f, label_names=names) for f in ("all.jsonl", "some.jsonl"))
    assert (some.scores[some.labels >= 0] >= 0).all()
    assert (some.labels >= 0).sum() == (found.scores >= 0).sum() < (found.labels >= 0).sum()
    _, out, _ = cli("predict", catalogue / "m", "--text", "w00 w01 w02", "--threshold", "0", "--json")
    assert json.loads(out)["labels"] == ["name 0"]
    n = len(found)
    _, _, err = cli(
        "predict", catalogue / "m", catalogue / "test.jsonl", "-o", catalogue / "no.jsonl", "--threshold", "99"
    )
    assert f"wrote {n} sets of 0.00 labels on average, {n} of them empty, to" in err
    code, _, err = cli("predict", catalogue / "m", "--text", "w00", "--threshold", "nan")
    assert (code, "threshold is nan, but must be a number" in err) == (2, True)


def test_evaluate_reads_every_file_that_predict_writes(cli, catalogue):
    expected = None
    for name in ("p.jsonl", "p.csv", "p.parquet"):
        cli("predict", catalogue / "m", catalogue / "test.jsonl", "-o", catalogue / name)
        code, out, _ = cli("evaluate", catalogue / name, catalogue / "test.jsonl", "--json")
        assert code == 0
        expected = expected or out
        assert out == expected
