"""The tail modules as they are typed."""

from __future__ import annotations

import json

import numpy as np
import pytest

import longtail
from compose.planted_tail import planted_tail
from longtail.data import Dataset, read_predictions, write_dataset


@pytest.fixture
def folder(tmp_path):
    for name, seed in (("train", 0), ("test", 1)):
        X, Y = planted_tail(300, seed)
        write_dataset(Dataset(Y=Y, X=X), tmp_path / f"{name}.txt")
    return tmp_path


def test_a_wrapper_is_trained_with_its_base_and_the_settings_of_both(cli, folder):
    code, _, err = cli(
        "train", folder / "train.txt", "--model", "ranknet", "--base", "parabel", "--out", folder / "m",
        "--set", "base.max_leaf=5", "--set", "epochs=2", "--threads", "1",
    )  # fmt: skip
    assert code == 0, err
    model = longtail.load_model(folder / "m")
    assert (type(model.base).__name__, model.base.max_leaf, model.base.n_jobs, model.epochs) == ("Parabel", 5, 1, 2)
    code, out, _ = cli("evaluate", folder / "m", folder / "test.txt", "--json")
    assert code == 0
    assert json.loads(out)["P@1"] > 80
    moved = json.loads(cli("evaluate", folder / "m", folder / "test.txt", "--json", "--exponent", "0")[1])
    assert moved["PSP@1"] < json.loads(out)["PSP@1"] - 5


def test_the_exponent_moves_at_prediction_time(cli, folder):
    train = ("train", folder / "train.txt", "--model", "propensityrerank", "--out", folder / "m", "--set", "folds=2")
    assert cli(*train)[0] == 0
    for exponent in ("0", "1"):
        target = folder / f"p{exponent}.npz"
        assert cli("predict", folder / "m", folder / "test.txt", "--out", target, "--exponent", exponent)[0] == 0
    base, tail = (read_predictions(folder / f"p{e}.npz") for e in "01")
    counts = longtail.load_model(folder / "m").label_counts_
    assert counts[tail.labels[:, 0]].mean() < counts[base.labels[:, 0]].mean()
    values = [
        json.loads(cli("evaluate", folder / "m", folder / "test.txt", "--json", "--exponent", e)[1])["PSP@1"]
        for e in ("0", "1")
    ]
    assert values[0] < values[1]
    np.testing.assert_array_equal(base.labels.shape, tail.labels.shape)


@pytest.mark.parametrize("name", ["auto", "propensityrerank", "ranknet"])
def test_every_model_with_a_price_takes_it_by_the_same_name(cli, folder, name):
    short = {"auto": ['models=["dismec"]'], "propensityrerank": ["folds=2"], "ranknet": ["folds=2", "epochs=1"]}[name]
    settings = [argument for setting in short for argument in ("--set", setting)]
    train = ("train", folder / "train.txt", "--model", name, "--price", "0.5", *settings)
    code, _, err = cli(*train, "--set", "price_metric=nDCG@5", "--out", folder / "m")
    assert code == 0, err
    model = longtail.load_model(folder / "m")
    assert (model.max_precision_loss, model.price_metric) == (0.5, "nDCG@5")


def test_an_exponent_for_what_has_none_is_refused(cli, folder):
    assert cli("train", folder / "train.txt", "--model", "popularity", "--out", folder / "m")[0] == 0
    code, _, err = cli("predict", folder / "m", folder / "test.txt", "--out", folder / "p.npz", "--exponent", "0.5")
    assert (code, "Popularity has no exponent" in err.replace("\n", " ")) == (2, True)
    code, _, err = cli("train", folder / "train.txt", "--model", "taug", "--set", "tau=2", "--out", folder / "n")
    assert (code, "tau is 2" in err) == (2, True)


def test_a_killed_training_goes_on(cli, folder, monkeypatch):
    from longtail.compose.reranker import Reranker

    train = ("train", folder / "train.txt", "--model", "propensityrerank", "--set", "folds=3", "--out")
    assert cli(*train, folder / "whole")[0] == 0
    fits: list[int] = []
    new_part = Reranker._new_part

    def counted(self):
        fits.append(1)
        if len(fits) == 3:
            raise MemoryError
        return new_part(self)

    monkeypatch.setattr(Reranker, "_new_part", counted)
    code, _, err = cli(*train, folder / "m", "--resume")
    assert code != 0
    assert "finished parts are kept" in err
    assert cli(*train, folder / "m", "--resume")[0] == 0
    assert len(fits) == 3 + 2, "of three folds and the base on all points, two folds were finished"
    assert not (folder / "m.partial").exists()
    X, _ = planted_tail(50, seed=5)
    one, other = (longtail.load_model(folder / name).predict(X) for name in ("whole", "m"))
    np.testing.assert_array_equal(one.scores, other.scores)
