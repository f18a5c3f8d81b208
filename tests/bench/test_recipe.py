"""Recipes: what a file may say, and how its mistakes are told."""

from __future__ import annotations

from pathlib import Path

import pytest

from longtail.bench.recipe import find_data_root, read_recipe
from longtail.errors import DataError

GOOD = """
seed = 3
[data]
train = "train.txt"
test = "test.txt"
[features]
unit_rows = true
[model]
name = "dismec"
weighting = "pw"
[model.parameters]
C = 0.5
[evaluate]
propensity = [0.5, 0.4]
"""


def recipe_of(tmp_path, text):
    path = tmp_path / "sets" / "one.toml"
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    return path


def test_a_recipe_is_read(tmp_path):
    recipe = read_recipe(recipe_of(tmp_path, GOOD))
    assert (recipe.title, recipe.seed, recipe.weighting) == ("sets/one", 3, "pw")
    assert recipe.estimator().C == 0.5
    assert recipe.propensity.A == 0.5


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("seed = 3", "sede = 3", "'sede': unknown field .*did you mean \"seed\""),
        ("seed = 3", 'seed = "3"', "'seed': is '3', but must be a whole number"),
        ("seed = 3", "seed = true", "'seed': is True"),
        ('train = "train.txt"', "", "'data.train': is missing"),
        ('train = "train.txt"', "train = 3", "'data.train': is 3, but must be a string"),
        ('name = "dismec"', 'name = "dismek"', "'model': unknown model .*did you mean \"dismec\""),
        ('weighting = "pw"', 'weighting = "pq"', "'model': unknown weighting"),
        ("C = 0.5", "C = -1", "'model': C is -1"),
        ("C = 0.5", "D = 1", "'model': unknown parameter"),
        ("unit_rows = true", "units = true", "'features.units': unknown field"),
        ("unit_rows = true", "unit_rows = 1", "'features.unit_rows': must be true or false"),
        ("unit_rows = true", "min_df = -1", "'features': min_df is -1"),
        ("[0.5, 0.4]", "[0.5]", "'evaluate.propensity'"),
        ("[evaluate]", "[evaluate]\nthreshold = 1.5", "'evaluate.threshold': threshold is 1.5, but must be a prob"),
        ("[evaluate]", "[evaluate]\nthreshold = 'a'", "'evaluate.threshold': is 'a', but must be a float"),
        ("[data]", "[data", "cannot be read as TOML"),
        ("[data]", f"x = {'[' * 100_000}", "cannot be read as TOML"),
        ("[features]", "reading = {txt = 'a'}\n[features]", "'data.reading.txt': unknown field .*\"text\""),
        ("[features]", "reading = {text = 5}\n[features]", "'data.reading': text is 5"),
    ],
)
def test_a_mistake_names_the_file_and_the_field(tmp_path, old, new, message):
    assert old in GOOD
    path = recipe_of(tmp_path, GOOD.replace(old, new, 1))
    with pytest.raises(DataError, match=message) as caught:
        read_recipe(path)
    assert str(path) in str(caught.value)


def test_a_recipe_that_is_not_there_is_said(tmp_path):
    with pytest.raises(DataError, match="no such recipe"):
        read_recipe(tmp_path / "none.toml")


def test_the_data_root_is_given_or_set_or_beside_the_repository(tmp_path, monkeypatch):
    monkeypatch.delenv("LONGTAIL_DATA", raising=False)
    path = recipe_of(tmp_path, GOOD)
    (tmp_path / "shared" / "data").mkdir(parents=True)
    assert find_data_root(Path("given"), path) == Path("given")
    assert find_data_root(None, path) == tmp_path / "shared" / "data"
    monkeypatch.setenv("LONGTAIL_DATA", "elsewhere")
    assert find_data_root(None, path) == Path("elsewhere")


def test_every_recipe_of_the_project_is_valid_and_lies_in_the_folder_of_its_dataset():
    folder = Path(__file__).parents[2] / "recipes"
    recipes = sorted(folder.glob("*/*.toml"))
    assert len(recipes) >= 16
    for path in recipes:
        assert read_recipe(path).dataset == path.parent.name
