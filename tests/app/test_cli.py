"""Every command as a user types it: what it prints, where, and how it ends."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
from sklearn.preprocessing import normalize

import longtail
from contract.planted import planted
from longtail.app import reading
from longtail.data import Dataset, read_dataset, read_predictions, write_dataset
from longtail.data.reading import Reading
from longtail.errors import OutputError
from longtail.metrics import evaluate
from longtail.objectives import PropensityModel


@pytest.mark.parametrize("error", [OutputError("no space left"), RuntimeError("a fault of ours")])
def test_a_model_that_cannot_be_written_does_not_cost_the_training(cli, xc, monkeypatch, error):
    train = ("train", xc / "train.txt", "--model", "dismec", "--out", xc / "m")

    def full(*_, **__):
        raise error

    with monkeypatch.context() as broken:
        broken.setattr(longtail.DiSMEC, "save", full)
        code, _, err = cli(*train)
    foreseen = isinstance(error, OutputError)
    assert (code, str(error) in err, "are kept in" in err) == (2 if foreseen else 1, True, True)
    assert list((xc / "m.partial").glob("*.safetensors"))
    with monkeypatch.context() as slow:
        slow.setattr("longtail.core.checkpoint.Checkpoint.put", full)  # nothing is trained again
        assert cli(*train, "--resume")[0] == 0
    assert not (xc / "m.partial").exists()
    data = read_dataset(xc / "train.txt")
    expected = longtail.DiSMEC().fit(data.X, data.Y).predict(data.X, k=3)
    np.testing.assert_array_equal(longtail.load_model(xc / "m").predict(data.X, k=3).labels, expected.labels)


def test_resume_says_that_there_is_nothing_to_resume(cli, xc):
    train = ("train", xc / "train.txt", "--model", "popularity", "--out", xc / "m")
    code, _, err = cli(*train, "--resume")
    assert (code, err.count("\n")) == (0, 2)
    assert f"nothing to resume in {xc / 'm.partial'}; starting from the beginning\n" in err
    assert "nothing to resume" not in cli(*train, "--overwrite")[2]
    tune = ("tune", xc / "train.txt", "--model", "dismec", "--trials", 1, "--study", xc / "s")
    for before in (True, False):
        code, _, err = cli(*tune, "--resume")
        assert (code, f"nothing to resume in {xc / 's'}; starting from the beginning" in err) == (0, before)


def test_a_result_never_takes_the_place_of_its_source(cli, texts):
    cli("train", texts / "train.jsonl", "--model", "popularity", "--out", texts / "m", "--set", "features.min_df=1")
    before = (texts / "test.jsonl").read_bytes()
    for command in (
        ("predict", texts / "m", texts / "test.jsonl", "--out", texts / "test.jsonl", "--overwrite"),
        ("convert", texts / "test.jsonl", texts / "test.jsonl", "--overwrite"),
    ):
        code, _, err = cli(*command)
        assert code == 2
        assert "is the input; choose another output path" in err
        assert (texts / "test.jsonl").read_bytes() == before


def test_train_evaluate_and_predict_agree_with_the_library(cli, xc):
    code, out, err = cli("train", xc / "train.txt", "--model", "dismec", "--out", xc / "m", "--set", "C=0.5")
    assert (code, out) == (0, "")
    assert "trained DiSMEC on 80 points with 6 labels" in err
    model = longtail.load_model(xc / "m")
    assert model.C == 0.5

    code, out, err = cli("evaluate", xc / "m", xc / "test.txt", "--json", "--propensity", "0.5,0.4")
    assert (code, err) == (0, "")
    test = read_dataset(xc / "test.txt")
    inverse = PropensityModel(0.5, 0.4).inverse(model.label_counts_, model.n_points_)
    expected = evaluate(model.predict(test.X, k=5), test.Y, inverse_propensities=inverse)
    assert json.loads(out) == pytest.approx(expected)
    assert {f"{m}@{k}" for m in ("P", "nDCG", "PSP", "PSnDCG", "R", "coverage") for k in range(1, 6)} <= expected.keys()

    for suffix in ("npz", "jsonl", "txt"):
        file = xc / f"p.{suffix}"
        assert cli("predict", xc / "m", xc / "test.txt", "-k", "5", "--out", file)[0] == 0
        np.testing.assert_array_equal(read_predictions(file).labels, model.predict(test.X, k=5).labels)
        code, out, _ = cli(
            "evaluate", file, xc / "test.txt", "--train", xc / "train.txt", "--propensity", "wikipedia", "--json"
        )
        assert code == 0
        assert json.loads(out) == pytest.approx(expected)


def test_rows_of_features_are_scaled_on_request_and_long_ones_are_mentioned(cli, xc):
    for name in ("train", "test"):
        data = read_dataset(xc / f"{name}.txt")
        write_dataset(Dataset(Y=data.Y, X=data.X * 50), xc / f"long-{name}.txt")
    for source, options in (("train", []), ("long-train", ["--unit-rows", "--set", "C=2"]), ("long-train", [])):
        out = xc / f"{source}{len(options)}"
        code, _, err = cli("train", xc / f"{source}.txt", "-m", "dismec", "-o", out, *options)
        assert code == 0
        assert "trained DiSMEC" in err
        assert ("--unit-rows scales them" in err) == (source == "long-train" and not options)
    scaled = longtail.load_model(xc / "long-train3")
    assert scaled.model_.C == 2
    train, test = read_dataset(xc / "long-train.txt"), read_dataset(xc / "long-test.txt")
    plain = longtail.DiSMEC(C=2).fit(normalize(train.X), train.Y)
    expected = plain.predict(normalize(test.X), k=5)
    assert cli("predict", xc / "long-train3", xc / "long-test.txt", "-o", xc / "p.npz")[0] == 0
    found = read_predictions(xc / "p.npz")
    np.testing.assert_array_equal(found.labels, expected.labels)
    np.testing.assert_allclose(found.scores, expected.scores, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(
    ("options", "inside"),
    [
        (["-m", "unitrows", "--set", "model.C=2"], lambda model: model.model_),
        (["-m", "unitrows", "--base", "dismec", "--set", "model.C=2"], lambda model: model.model_),
        (["-m", "propensityrerank", "--base", "unitrows", "--set", "base.model.C=2"], lambda model: model.base_.model_),
        (["-m", "propensityrerank", "--unit-rows", "--set", "base.C=2"], lambda model: model.model_.base_),
    ],
)
def test_a_model_behind_scaled_rows_takes_its_settings(cli, xc, options, inside):
    data = read_dataset(xc / "train.txt")
    write_dataset(Dataset(Y=data.Y, X=data.X * 50), xc / "long.txt")
    more = ["--weighting", "pw", "--threads", 1, "--seed", 3]
    code, _, err = cli("train", xc / "long.txt", "-o", xc / "m", *options, *more)
    assert (code, "--unit-rows" in err) == (0, False), err
    model = inside(longtail.load_model(xc / "m"))
    assert (model.C, model.weighting, model.n_jobs, model.random_state) == (2, "pw", 1, 3)


def test_texts_become_features_and_label_names_travel(cli, texts):
    code, _, err = cli(
        "train",
        texts / "train.jsonl",
        "-m",
        "dismec",
        "-o",
        texts / "m",
        "--set",
        "features.min_df=1",
        "--weighting",
        "pw",
    )
    assert code == 0, err
    model = longtail.load_model(texts / "m")
    assert model.label_names_ == [f"name {i}" for i in range(6)]
    assert (model.features.min_df, model.model.weighting) == (1, "pw")

    assert cli("predict", texts / "m", texts / "test.jsonl", "-o", texts / "p.jsonl", "-k", 2)[0] == 0
    lines = [json.loads(line) for line in (texts / "p.jsonl").read_text().splitlines()]
    assert set(lines[0]["labels"]) <= set(model.label_names_)

    # The unknown label sorts first in the test file, and must neither shift the ids nor go unnoticed.
    code, out, _ = cli("evaluate", texts / "m", texts / "test.jsonl", "--json")
    data = planted(80, 1)
    metrics = json.loads(out)
    assert metrics["P@1"] > 95
    found = [len(set(p) & set(y)) / (len(y) + 1) for p, y in zip(predicted(model, data), data.lists, strict=True)]
    assert metrics["R@5"] == pytest.approx(100 * np.mean(found))


def predicted(model, data):
    return model.predict(data.texts, k=5).labels.tolist()


def test_predicting_needs_no_labels(cli, texts):
    cli("train", texts / "train.jsonl", "-m", "popularity", "-o", texts / "m")
    most_frequent = int(np.argmax(planted(80).Y.sum(axis=0)))
    (texts / "new.jsonl").write_text('{"text": "w00 w01"}\n')
    assert cli("predict", texts / "m", texts / "new.jsonl", "-o", texts / "p.jsonl", "-k", "1")[0] == 0
    assert json.loads((texts / "p.jsonl").read_text())["labels"] == [f"name {most_frequent}"]


def test_the_labels_of_one_text_are_shown(cli, texts, xc):
    cli("train", texts / "train.jsonl", "-m", "dismec", "-o", texts / "m")
    model, text = longtail.load_model(texts / "m"), planted(80).texts[0]
    best = model.predict([text], k=2)
    code, out, _ = cli("predict", texts / "m", "--text", text, "-k", "2", "--json")
    shown = json.loads(out)
    assert (code, shown["labels"]) == (0, [model.label_names_[i] for i in best.labels[0]])
    assert shown["scores"] == pytest.approx(best.scores[0].tolist())
    code, out, _ = cli("predict", texts / "m", "--text", text, "-k", "2")
    assert code == 0
    assert out.index(shown["labels"][0]) < out.index(shown["labels"][1])
    for wrong in ([], [texts / "train.jsonl"], ["--text", text, "-o", texts / "p.jsonl"]):
        code, _, err = cli("predict", texts / "m", *wrong)
        assert (code, "--text" in err) == (2, True)
    cli("train", xc / "train.txt", "-m", "dismec", "-o", xc / "features")
    code, _, err = cli("predict", xc / "features", "--text", text)
    assert (code, "was trained on features" in err) == (2, True)


def test_narrower_and_wider_test_features_are_conformed(cli, xc):
    cli("train", xc / "train.txt", "-m", "dismec", "-o", xc / "m")
    _, exact, _ = cli("evaluate", xc / "m", xc / "test.txt", "--json")
    test = read_dataset(xc / "test.txt")
    wide = test.X.copy()
    wide.resize(80, 30)
    wide = wide.tolil()
    wide[0, 28] = 9.0
    for X, warned in ((test.X[:, :25], False), (wide.tocsr(), True)):
        write_dataset(Dataset(Y=test.Y, X=X), xc / "other.txt", overwrite=True)
        code, out, err = cli("evaluate", xc / "m", xc / "other.txt", "--json")
        assert code == 0
        assert json.loads(out) == pytest.approx(json.loads(exact))
        assert ("dropped (1 of" in err) is warned


def test_the_table_names_every_metric_and_band(cli, xc):
    cli("train", xc / "train.txt", "-m", "popularity", "-o", xc / "m")
    code, out, _ = cli("evaluate", xc / "m", xc / "test.txt")
    assert code == 0
    for word in ("P ", "nDCG", "PSP", "PSnDCG", "R ", "coverage", "@1", "@3", "@5", "head", "torso", "tail"):
        assert word in out
    assert "@2" not in out


def test_convert_and_info(cli, xc):
    assert cli("convert", xc / "train.txt", xc / "dir")[0] == 0
    assert (read_dataset(xc / "dir").X != read_dataset(xc / "train.txt").X).nnz == 0
    code, out, _ = cli("info", xc / "dir", "--json")
    fields = json.loads(out)
    assert (code, fields["points"], fields["labels"]) == (0, 80, 6)
    assert cli("info", xc / "dir")[1].count("80") >= 1
    cli("train", xc / "dir", "-m", "dismec", "--weighting", "pw", "-o", xc / "m")
    code, out, _ = cli("info", xc / "m", "--json")
    fields = json.loads(out)
    assert fields["class"] == "DiSMEC"
    assert fields["parameters"]["weighting"] == "pw"
    assert fields["training points"] == 80
    assert "weighting = pw" in cli("info", xc / "m")[1]


def test_help_names_the_defaults_of_reading():
    for name, (_, _, about) in reading._OPTIONS.items():
        default = getattr(Reading(), name)
        said = re.search("default: (.*)[.]$", about)
        if default is not None:
            assert said is not None
            assert said[1] == default


def test_version_and_models_are_listed(cli):
    assert cli("--version")[1].strip() == longtail.__version__
    assert {"popularity", "dismec"} <= set(cli("--list-models")[1].split())


def test_overwriting_replaces_the_model(cli, xc):
    cli("train", xc / "train.txt", "-m", "popularity", "-o", xc / "m")
    assert cli("train", xc / "train.txt", "-m", "dismec", "-o", xc / "m", "--overwrite")[0] == 0
    assert type(longtail.load_model(xc / "m")).__name__ == "DiSMEC"


def test_labels_of_points_to_predict_may_be_out_of_the_models_range(cli, xc):
    """As the page says: they are not used, but those of an XC file lie in the range of its first line."""
    assert cli("train", xc / "train.txt", "--model", "popularity", "--out", xc / "m")[0] == 0
    (xc / "wide.txt").write_text("1 18 9\n8 0:1\n")
    assert cli("predict", xc / "m", xc / "wide.txt", "--out", xc / "p.jsonl", "-k", "1")[0] == 0
    (xc / "narrow.txt").write_text("1 18 6\n8 0:1\n")
    code, _, err = cli("predict", xc / "m", xc / "narrow.txt", "--out", xc / "q.jsonl", "-k", "1")
    assert code == 2
    assert "out of range" in err


@pytest.mark.parametrize(
    "command", ["train", "predict", "evaluate", "explain", "convert", "info", "bench", "demo", None]
)
def test_help_shows_flags_without_a_value(cli, command):
    code, out, _ = cli(*([command] if command else []), "--help")
    assert code == 0
    assert "--help" in out
    assert "<bool>" not in out
