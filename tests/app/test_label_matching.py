"""Labels of predictions, models and data are matched by name, or refused."""

from __future__ import annotations

import json

import numpy as np
import pytest

import longtail
from contract.planted import planted
from longtail.data import Dataset, read_dataset, write_dataset
from longtail.metrics import evaluate


def numbered(folder, name, seed):
    """Data whose labels are numbers, 10 apart, in an order that is not that of the names."""
    data = planted(80, seed)
    with open(folder / f"{name}.jsonl", "w") as file:
        for text, labels in zip(data.texts, data.lists, strict=True):
            file.write(json.dumps({"text": text, "labels": [100 - 10 * i for i in labels]}) + "\n")
    return [100 - 10 * labels[0] if labels else None for labels in data.lists]


def test_numbers_in_predictions_are_names_where_labels_are_numbers(cli, tmp_path):
    first = numbered(tmp_path, "test", 1)
    numbered(tmp_path, "train", 0)
    for quoted in (str, int):
        with open(tmp_path / "p.jsonl", "w") as file:
            for label in first:
                found = [] if label is None else [quoted(label)]
                file.write(json.dumps({"labels": found, "scores": [1.0] * len(found)}) + "\n")
        for more in ([], ["--train", tmp_path / "train.jsonl"]):
            code, out, _ = cli("evaluate", tmp_path / "p.jsonl", tmp_path / "test.jsonl", "--json", *more)
            assert code == 0
            assert json.loads(out)["P@1"] == pytest.approx(100 * np.mean([label is not None for label in first]))


def test_a_model_without_label_names_is_not_scored_against_names_by_chance(cli, texts):
    train = read_dataset(texts / "train.jsonl")
    model = longtail.TextPipeline(features=longtail.TextFeatures(min_df=1, max_df=1.0)).fit(train.texts, train.Y)
    model.save(texts / "nameless")
    expected = evaluate(
        model.predict(read_dataset(texts / "test.jsonl").texts, k=5),
        read_dataset(texts / "test.jsonl", label_names=train.label_names).Y,
    )
    code, _, err = cli("evaluate", texts / "nameless", texts / "test.jsonl")
    assert code == 2
    assert "was trained without label names" in err
    cli("predict", texts / "nameless", texts / "test.jsonl", "--out", texts / "ids.jsonl")
    code, _, err = cli("evaluate", texts / "ids.jsonl", texts / "test.jsonl")
    assert code == 2
    assert "give the training data" in err
    for subject in ("nameless", "ids.jsonl"):
        command = ("evaluate", texts / subject, texts / "test.jsonl", "--train", texts / "train.jsonl", "--json")
        assert json.loads(cli(*command)[1])["P@1"] == pytest.approx(expected["P@1"])


def test_training_data_without_names_do_not_order_the_labels_of_data_with_names(cli, texts):
    data = planted(80, 0)
    write_dataset(Dataset(Y=data.Y, X=data.X), texts / "other.txt")
    (texts / "p.txt").write_text("0:1.0\n" * 80)
    code, _, err = cli("evaluate", texts / "p.txt", texts / "test.jsonl", "--train", texts / "other.txt")
    assert code == 2
    assert "do not belong together" in err


def test_predictions_of_other_labels_are_noticed(cli, texts):
    with open(texts / "p.jsonl", "w") as file:
        file.writelines(json.dumps({"labels": ["elsewhere"], "scores": [1.0]}) + "\n" for _ in range(80))
    code, _, err = cli("evaluate", texts / "p.jsonl", texts / "test.jsonl")
    assert code == 0
    assert "none of the predicted labels occurs in" in err


def test_ids_without_the_order_of_the_training_labels_are_not_guessed(cli, texts):
    cli("train", texts / "train.jsonl", "-m", "popularity", "-o", texts / "m")
    cli("predict", texts / "m", texts / "test.jsonl", "-o", texts / "p.npz")
    cli("predict", texts / "m", texts / "test.jsonl", "-o", texts / "p.jsonl")
    code, _, err = cli("evaluate", texts / "p.npz", texts / "test.jsonl")
    assert code == 2
    assert "give the training data (--train DATA)" in err
    _, by_model, _ = cli("evaluate", texts / "m", texts / "test.jsonl", "--json")
    _, by_ids, _ = cli("evaluate", texts / "p.npz", texts / "test.jsonl", "--train", texts / "train.jsonl", "--json")
    assert json.loads(by_ids) == pytest.approx(json.loads(by_model))
    code, by_names, err = cli("evaluate", texts / "p.jsonl", texts / "test.jsonl", "--json")
    assert code == 0
    assert "left out" in err
    plain = {key: value for key, value in json.loads(by_model).items() if not key.startswith("PS")}
    assert {k: v for k, v in json.loads(by_names).items() if not k.startswith("macro")} == pytest.approx(
        {k: v for k, v in plain.items() if not k.startswith("macro")}
    )
