"""Points held out by a recipe."""

from __future__ import annotations

import numpy as np
import pytest

from contract.planted import planted
from longtail.bench.prepare import prepared
from longtail.bench.recipe import read_recipe
from longtail.bench.split import folds, hold_out
from longtail.data import Dataset, read_dataset, write_dataset
from longtail.errors import DataError, ParameterError

RECIPE = '[data]\ntrain = "train.txt"\n{data}\n[model]\nname = "popularity"\n'


@pytest.fixture
def recipe(tmp_path):
    data = planted(50)
    write_dataset(Dataset(Y=data.Y, X=data.X), tmp_path / "train.txt")

    def made(data):
        path = tmp_path / "recipe.toml"
        path.write_text(RECIPE.format(data=data))
        return read_recipe(path)

    return made


def test_points_are_held_out_once_and_by_the_seed(recipe, tmp_path):
    train, dev = hold_out(50, 0.2, 7)
    assert np.array_equal(np.sort(np.concatenate([train, dev])), np.arange(50))
    assert dev.size == 10
    assert not np.array_equal(dev, hold_out(50, 0.2, 8)[1])
    folder = prepared(recipe("held_out = 0.2\nsplit_seed = 7"), tmp_path, tmp_path / "cache")
    whole = read_dataset(tmp_path / "train.txt")
    assert (whole.X[dev] != read_dataset(folder / "test").X).nnz == 0
    assert (whole.Y[train] != read_dataset(folder / "train").Y).nnz == 0
    other = prepared(recipe("held_out = 0.2\nsplit_seed = 8"), tmp_path, tmp_path / "cache")
    assert other != folder


def test_folds_hold_every_point_out_once():
    pieces = [dev for _, dev in folds(11, 3, 0)]
    assert np.array_equal(np.sort(np.concatenate(pieces)), np.arange(11))
    with pytest.raises(DataError, match="3 points cannot be split into 4 folds"):
        list(folds(3, 4, 0))


def test_a_sample_is_taken_before_points_are_held_out(recipe, tmp_path):
    folder = prepared(recipe("held_out = 0.5\nsample = 20"), tmp_path, tmp_path / "cache")
    assert read_dataset(folder / "train").n_points == read_dataset(folder / "test").n_points == 10


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("", "give either a test file or the share to hold out"),
        ('test = "a"\nheld_out = 0.2', "give either a test file or the share to hold out"),
        ("held_out = 1.5", "must be a share between 0 and 1"),
        ("held_out = 0.2\nsample = 1", "must be at least 2 points"),
        ("held_out = 0.2\nsplit_seed = -1", "must be 0 or above"),
    ],
)
def test_a_split_that_cannot_be_is_refused(recipe, data, message):
    with pytest.raises(DataError, match=message):
        recipe(data)


def test_one_point_cannot_be_split():
    with pytest.raises(DataError, match="one point cannot be split"):
        hold_out(1, 0.2, 0)
    with pytest.raises(ParameterError, match="must be a share"):
        hold_out(5, 1.0, 0)
