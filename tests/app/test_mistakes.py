"""Mistakes at the command line: one message, exit code 2, and nothing changes."""

from __future__ import annotations

import os

import numpy as np
import pytest

from app.folders import everything


@pytest.mark.parametrize("options", [[], ["--set", "features.min_df=1"]])
def test_texts_have_no_rows_to_scale(cli, texts, options):
    code, _, err = cli("train", texts / "train.jsonl", "-m", "dismec", "-o", texts / "m", "--unit-rows", *options)
    assert (code, "this dataset has only texts" in err, (texts / "m").exists()) == (2, True, False)


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
        ("predict m test.txt -o p.pdf", "unsupported extension '.pdf'"),
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
