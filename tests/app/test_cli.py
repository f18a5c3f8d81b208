"""Every command as a user types it: what it prints, where, and how it ends."""

from __future__ import annotations

import json
import os
import sys

import numpy as np
import pytest
from sklearn.preprocessing import normalize

import longtail
from contract.planted import planted
from longtail.app import options as shared_options
from longtail.app.cli import main
from longtail.data import Dataset, read_dataset, read_predictions, write_dataset
from longtail.data.labels import SEPARATOR
from longtail.errors import OutputError
from longtail.metrics import evaluate
from longtail.objectives import PropensityModel


@pytest.fixture
def cli(monkeypatch, capsys):
    """Run `longtail ...` in this process: (exit code, stdout, stderr)."""

    def run(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["longtail", *map(str, arguments)])
        with pytest.raises(SystemExit) as stop:
            main()
        captured = capsys.readouterr()
        return int(stop.value.code or 0), captured.out, captured.err

    return run


@pytest.fixture
def xc(tmp_path):
    """train.txt and test.txt with features."""
    for name, seed in (("train", 0), ("test", 1)):
        data = planted(80, seed)
        write_dataset(Dataset(Y=data.Y, X=data.X), tmp_path / f"{name}.txt")
    return tmp_path


@pytest.fixture
def texts(tmp_path):
    """train.jsonl and test.jsonl with texts and label names; the test set has a label that training lacks."""
    for name, seed, extra in (("train", 0, []), ("test", 1, ["aaa unknown"])):
        data = planted(80, seed)
        with open(tmp_path / f"{name}.jsonl", "w") as file:
            for text, labels in zip(data.texts, data.lists, strict=True):
                file.write(json.dumps({"text": text, "labels": [f"name {i}" for i in labels] + extra}) + "\n")
    return tmp_path


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


@pytest.mark.parametrize("error", [OutputError("no space left"), RuntimeError("a fault of ours")])
def test_a_model_that_cannot_be_written_does_not_cost_the_training(cli, xc, monkeypatch, error):
    train = ("train", xc / "train.txt", "--model", "dismec", "--out", xc / "m")

    def full(*_, **__):
        raise error

    with monkeypatch.context() as broken:
        broken.setattr(longtail.DiSMEC, "save", full)
        if isinstance(error, OutputError):
            code, _, err = cli(*train)
            assert (code, "no space left" in err, "are kept in" in err) == (2, True, True)
        else:  # what we did not foresee shows where it comes from
            monkeypatch.setattr(sys, "argv", ["longtail", *map(str, train)])
            with pytest.raises(RuntimeError):
                main()
    assert list((xc / "m.partial").glob("*.safetensors"))
    with monkeypatch.context() as slow:
        slow.setattr("longtail.core.checkpoint.Checkpoint.put", full)  # nothing is trained again
        assert cli(*train, "--resume")[0] == 0
    assert not (xc / "m.partial").exists()
    data = read_dataset(xc / "train.txt")
    expected = longtail.DiSMEC().fit(data.X, data.Y).predict(data.X, k=3)
    np.testing.assert_array_equal(longtail.load_model(xc / "m").predict(data.X, k=3).labels, expected.labels)


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


@pytest.mark.parametrize("options", [[], ["--set", "features.min_df=1"]])
def test_texts_have_no_rows_to_scale(cli, texts, options):
    code, _, err = cli("train", texts / "train.jsonl", "-m", "dismec", "-o", texts / "m", "--unit-rows", *options)
    assert (code, "this dataset has only texts" in err, (texts / "m").exists()) == (2, True, False)


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


def test_commands_and_library_separate_labels_alike():
    assert shared_options.SEPARATOR == SEPARATOR


def everything(folder):
    return {str(f.relative_to(folder)): f.read_bytes() for f in sorted(folder.rglob("*")) if f.is_file()}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("train train.txt -m dismek -o new", 'did you mean "dismec"'),
        ("train train.txt -m dismec -o new --set CC=1", 'unknown parameter "CC"'),
        ("train train.txt -m dismec -o new --set C=-1", "C is -1"),
        ("train train.txt -m dismec -o new --set C", "key=value"),
        ("train train.txt -m dismec -o new --weighting pv", "unknown weighting"),
        ("train train.txt -m popularity -o new --base dismec", "wraps no other model"),
        ("train train.txt -m dismec -o new --threads 0", "--threads is 0"),
        ("train train.txt -m popularity -o full", "was not written by longtail"),
        ("train train.txt -m popularity -o full --overwrite", "was not written by longtail"),
        ("train train.txt -m popularity -o m", "--overwrite"),
        ("train train.txt -m popularity -o no/where", "does not exist"),
        ("train absent.txt -m popularity -o new", "absent.txt: does not exist"),
        ("train broken.txt -m popularity -o new", "broken.txt:2"),
        ("train train.pdf -m popularity -o new", "unsupported extension '.pdf'"),
        ("train text.jsonl -m dismec -o new --set C=-1", "C is -1"),
        ("train text.jsonl -m dismec -o new --set features.min_df=-1", "min_df is -1"),
        ("predict m test.txt -o p.npz -k 0", "k is 0"),
        ("predict m test.txt -o p.npz -k 7", "between 1 and the number of labels, 6"),
        ("predict m test.txt -o p.csv", "unsupported extension '.csv'; use .npz, .jsonl or .txt"),
        ("predict m test.txt -o full/thesis.txt", "exists"),
        ("predict full test.txt -o p.npz", "not a model directory"),
        ("predict m text.jsonl -o p.npz", "this dataset has only texts"),
        ("evaluate m test.txt --propensity 1", "unknown propensity preset"),
        ("evaluate m test.txt --propensity=-1,2", "A of the propensity model is -1"),
        ("evaluate absent.npz test.txt", "absent.npz"),
        ("evaluate absent test.txt", "absent: does not exist"),
        ("bench good.toml --out train.txt", "train.txt/here: cannot be made"),
        ("bench good.toml --out theirs", "theirs/here/good.json was not written by longtail bench"),
        ("bench good.toml --variant x", 'no study was given that has a variant "x"'),
        ("bench valid-study.toml --variant tow", 'unknown variant "tow"; did you mean "two"?'),
        ("bench study.toml", "study.toml, field 'variants.two.model.nmae': unknown field"),
        ("evaluate short.npz test.txt", "predictions for 1 points, but Y has 80"),
        ("convert train.txt full", "was not written by longtail"),
        ("convert train.txt m.txt", "exists"),
        ("convert train.txt m --overwrite", "is a model directory"),
        ("info absent", "does not exist"),
        ("bench absent.toml", "no such recipe"),
        ("demo --seed -1", "seed is -1"),
        ("demo --data tiny.txt", "at least 10 points"),
    ],
)
def test_a_mistake_is_one_message_exit_2_and_nothing_changes(cli, xc, monkeypatch, arguments, said):
    monkeypatch.chdir(xc)
    cli("train", "train.txt", "-m", "popularity", "-o", "m")
    (xc / "full").mkdir()
    (xc / "full" / "thesis.txt").write_text("precious")
    (xc / "m.txt").write_text("mine")
    (xc / "broken.txt").write_text("2 3 4\n0 0:nonsense\n")
    (xc / "train.pdf").write_text("x")
    (xc / "text.jsonl").write_text('{"text": "a", "labels": []}\n')
    (xc / "tiny.txt").write_text("1 2 2\n0 0:1\n")
    recipe = 'dataset = "here"\n[data]\ntrain = "train.txt"\ntest = "test.txt"\n[model]\nname = "popularity"\n'
    (xc / "good.toml").write_text(recipe)
    (xc / "study.toml").write_text(f'{recipe}[variants.two.model]\nnmae = "dismec"\n')
    (xc / "valid-study.toml").write_text(f'{recipe}[variants.two.model]\nname = "dismec"\n')
    (xc / "theirs" / "here").mkdir(parents=True)
    (xc / "theirs" / "here" / "good.json").write_text('{"my": "thesis"}')
    np.savez(xc / "short.npz", labels=np.array([[0]]), scores=np.float32([[1]]))
    before = everything(xc)
    code, out, err = cli(*arguments.split())
    assert code == 2, err
    assert out == ""
    assert said in err
    assert err.startswith("error: ")
    assert err.count("error:") == 1
    assert "Traceback" not in err
    assert everything(xc) == before


def test_usage_mistakes_exit_2_too(cli):
    for arguments in (["train"], ["nonsense"], ["predict", "a", "b"], ["train", "a", "--nonsense"]):
        code, _, err = cli(*arguments)
        assert code == 2
        assert "Usage" in err


def test_version_and_models_are_listed(cli):
    assert cli("--version")[1].strip() == longtail.__version__
    assert {"popularity", "dismec"} <= set(cli("--list-models")[1].split())


def test_overwriting_replaces_the_model(cli, xc):
    cli("train", xc / "train.txt", "-m", "popularity", "-o", xc / "m")
    assert cli("train", xc / "train.txt", "-m", "dismec", "-o", xc / "m", "--overwrite")[0] == 0
    assert type(longtail.load_model(xc / "m")).__name__ == "DiSMEC"


def test_bench_runs_what_it_can_and_names_what_it_cannot(cli, xc):
    recipe = '[data]\ntrain = "{}"\ntest = "test.txt"\n[model]\nname = "popularity"\n'
    (xc / "one.toml").write_text(recipe.format("train.txt"))
    (xc / "two.toml").write_text(recipe.format("absent.txt"))
    where = ("--out", xc / "out", "--cache", xc / "cache", "--data-root", xc)
    code, out, err = cli("bench", xc / "two.toml", *where)
    assert code == 2
    assert "not run" in err
    assert "absent.txt" in err
    code, out, err = cli("bench", xc / "one.toml", xc / "two.toml", *where)
    assert code == 0, err
    assert "two.toml: absent.txt is neither" in err
    assert "PSP@5" in out
    assert [file.name for file in (xc / "out").rglob("*.json")] == ["one.json"]


def test_a_recipe_that_fails_does_not_stop_the_others(cli, xc):
    recipe = '[data]\ntrain = "{}"\ntest = "test.txt"\n[model]\nname = "popularity"\n'
    (xc / "broken.txt").write_text("nonsense\n")
    (xc / "bad.toml").write_text(recipe.format("broken.txt"))
    (xc / "good.toml").write_text(recipe.format("train.txt"))
    where = ("--out", xc / "out", "--cache", xc / "cache", "--data-root", xc)
    code, out, err = cli("bench", xc / "bad.toml", xc / "good.toml", *where)
    assert code == 2
    assert "broken.txt" in err
    assert "good" in out


def test_bench_writes_beside_the_recipe_and_nowhere_else(cli, xc, monkeypatch):
    monkeypatch.chdir(xc)
    (xc / "docs").mkdir()
    (xc / "docs" / "results.md").write_text("mine")
    (xc / "README.md").write_text("mine, too")
    (xc / "set").mkdir()
    (xc / "set" / "study.toml").write_text(
        '[data]\ntrain = "../train.txt"\ntest = "../test.txt"\n[model]\nname = "popularity"\n'
        '[variants.plain]\n[variants.weighted.model]\nname = "dismec"\nweighting = "pw"\n'
    )
    before = everything(xc)
    code, out, err = cli("bench", "set/study.toml", "--cache", xc / ".cache")
    assert code == 0, err
    assert "weighted" in out
    found = sorted(str(file.relative_to(xc)) for file in xc.rglob("*.json") if ".cache" not in file.parts)
    assert found == ["set/results/set/plain.json", "set/results/set/weighted.json"]
    result = json.loads((xc / found[1]).read_text())
    assert (result["recipe"], result["weighting"]) == ("weighted", "pw")
    assert result["command"] == "longtail bench studies/study.toml --variant weighted"
    assert {path: content for path, content in everything(xc).items() if path in before} == before
    # The same command again replaces what it wrote, and only the variant that is named.
    (xc / found[0]).write_text((xc / found[0]).read_text().replace('"seed": 0', '"seed": 7'))
    assert cli("bench", "set/study.toml", "--variant", "weighted", "--cache", xc / ".cache")[0] == 0
    assert json.loads((xc / found[0]).read_text())["seed"] == 7


def test_predict_says_before_the_work_that_it_may_not_write(cli, xc, monkeypatch):
    assert cli("train", xc / "train.txt", "--model", "popularity", "--out", xc / "model")[0] == 0
    monkeypatch.setattr("os.access", lambda path, mode: mode != os.W_OK)  # root may write anywhere
    code, _, err = cli("predict", xc / "model", xc / "test.txt", "--out", xc / "found.jsonl")
    assert code == 2
    assert "no permission to write to the folder" in err


@pytest.mark.parametrize("model", [["textpipeline"], ["xgrank"], ["taug", "--base", "xgrank"]], ids="-".join)
def test_a_text_model_on_features_is_refused_and_nothing_is_left(cli, xc, model):
    code, out, err = cli("train", xc / "train.txt", "--out", xc / "m", "--model", *model)
    assert (code, out) == (2, "")
    assert f"{model[0]} needs texts, but this dataset has only features" in " ".join(err.split())
    assert sorted(file.name for file in xc.iterdir()) == ["test.txt", "train.txt"]


def test_threads_and_seed_are_named_as_they_were_typed(cli, xc):
    train = ("train", xc / "train.txt", "--model", "dismec", "--out", xc / "m")
    for option, value in (("--threads", "0"), ("--threads", "-2"), ("--seed", "-1")):
        code, _, err = cli(*train, option, value)
        assert code == 2
        assert option in err
        assert "n_jobs" not in err
        assert "random_state" not in err
    assert cli(*train, "--threads", "-1", "--seed", "3")[0] == 0


def test_explain_takes_an_id_where_no_name_fits(cli, tmp_path):
    data = planted(30, 0)
    names = ["4", "one", "two", "three", "four", "five"]
    model = longtail.AttentionXML(length=16, epochs=1, hidden=4, widths=(4,), word_width=4)
    model.fit(data.texts, data.Y, label_names=names).save(tmp_path / "m")
    for label, shown in (("3", "three"), ("4", "4"), ("five", "five")):
        code, out, _ = cli("explain", tmp_path / "m", data.texts[0], "--label", label, "--json")
        assert (code, json.loads(out)["label"]) == (0, shown)
    code, _, err = cli("explain", tmp_path / "m", data.texts[0], "--label", "6")
    assert code == 2
    assert "has 6 labels" in err


def test_explain_shows_what_the_base_of_a_module_looked_at(cli, tmp_path):
    data = planted(30, 0)
    base = longtail.AttentionXML(length=16, epochs=1, hidden=4, widths=(4,), word_width=4)
    model = longtail.PropensityRerank(base=base, held_out=0.3).fit(data.texts, data.Y)
    model.save(tmp_path / "m")
    code, out, _ = cli("explain", tmp_path / "m", data.texts[0], "--label", "2", "--json")
    expected = model.base_.explain(data.texts[0], 2)
    assert code == 0
    assert json.loads(out)["score"] == pytest.approx(expected.score)
    assert [token["token"] for token in json.loads(out)["tokens"]] == [token.token for token in expected.tokens]
    longtail.TextPipeline(features=longtail.TextFeatures(min_df=1, max_df=1.0)).fit(data.texts, data.Y).save(
        tmp_path / "linear"
    )
    code, _, err = cli("explain", tmp_path / "linear", data.texts[0])
    assert (code, "DiSMEC cannot explain its scores" in err) == (2, True)


def test_labels_of_points_to_predict_may_be_out_of_the_models_range(cli, xc):
    """As the page says: they are not used, but those of an XC file lie in the range of its first line."""
    assert cli("train", xc / "train.txt", "--model", "popularity", "--out", xc / "m")[0] == 0
    (xc / "wide.txt").write_text("1 18 9\n8 0:1\n")
    assert cli("predict", xc / "m", xc / "wide.txt", "--out", xc / "p.jsonl", "-k", "1")[0] == 0
    (xc / "narrow.txt").write_text("1 18 6\n8 0:1\n")
    code, _, err = cli("predict", xc / "m", xc / "narrow.txt", "--out", xc / "q.jsonl", "-k", "1")
    assert code == 2
    assert "out of range" in err
