"""Studies: variants of one recipe, and how their mistakes are told."""

from __future__ import annotations

from pathlib import Path

import pytest

from longtail.bench.recipe import read_recipe
from longtail.bench.study import merged, read_experiments, read_file
from longtail.errors import DataError, ParameterError

BASE = """
seed = 3
[data]
train = "train.txt"
test = "test.txt"
[model]
name = "dismec"
[model.parameters]
C = 0.5
tol = 0.2
"""
VARIANTS = """
[variants.heavy.model.parameters]
C = 4.0
[variants.weighted]
seed = 5
[variants.weighted.model]
weighting = "pw"
"""
ROOT = Path(__file__).parents[2]


@pytest.fixture
def study(tmp_path):
    (tmp_path / "recipes" / "small").mkdir(parents=True)
    (tmp_path / "studies").mkdir()
    (tmp_path / "recipes" / "small" / "dismec.toml").write_text(BASE)
    path = tmp_path / "studies" / "cost.toml"
    path.write_text('base = "../recipes/small/dismec.toml"\n' + VARIANTS)
    return path


def test_variants_override_the_base_table_by_table(study):
    heavy, weighted = read_file(study)
    assert (heavy.title, weighted.title) == ("small/heavy", "small/weighted")
    assert (heavy.estimator().C, heavy.estimator().tol, heavy.seed) == (4.0, 0.2, 3)
    assert (weighted.estimator().C, weighted.weighting, weighted.seed) == (0.5, "pw", 5)
    assert merged({"a": {"b": 1, "c": 2}}, {"a": {"b": 3}, "d": [1]}) == {"a": {"b": 3, "c": 2}, "d": [1]}


def test_the_base_may_stand_in_the_study(study):
    inline = study.with_name("inline.toml")
    inline.write_text('dataset = "small"\n' + BASE + VARIANTS)
    for one, other in zip(read_file(inline), read_file(study), strict=True):
        assert (one.title, one.parameters, one.train) == (other.title, other.parameters, other.train)


def test_recipes_and_studies_are_read_together_and_variants_chosen(study):
    recipe = study.parents[1] / "recipes" / "small" / "dismec.toml"
    assert [r.name for r in read_experiments([recipe, study])] == ["dismec", "heavy", "weighted"]
    assert [r.name for r in read_experiments([recipe, study], ["weighted"])] == ["dismec", "weighted"]
    with pytest.raises(ParameterError, match='unknown variant "hevy"; did you mean "heavy"'):
        read_experiments([study], ["weighted", "hevy"])
    with pytest.raises(DataError, match=r"same dataset and name as .*cost\.toml, variant 'heavy'"):
        read_experiments([study, study])


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("C = 4.0", 'C = "x"', r"cost\.toml, field 'variants\.heavy\.model': C is"),
        ("C = 4.0", "D = 4.0", r"cost\.toml, field 'variants\.heavy\.model': unknown parameter"),
        ("seed = 5", 'seed = "5"', r"cost\.toml, field 'variants\.weighted\.seed': is '5', but must be a whole number"),
        ("seed = 5", "sede = 5", r"cost\.toml, field 'variants\.weighted\.sede': unknown field"),
        ('weighting = "pw"', "data = 3", r"field 'variants\.weighted\.model\.data': unknown field"),
        ('weighting = "pw"', 'weighting = "pq"', r"field 'variants\.weighted\.model': unknown weighting"),
        ("[variants.heavy.model.parameters]", '[variants."a/b".model.parameters]', "cannot be part of a file name"),
        (VARIANTS, "variants = 3", "field 'variants': must be a table"),
        (VARIANTS, "", "field 'variants': must be a table"),
        (VARIANTS, "variants.x = 3", r"field 'variants\.x': is 3, but must be a table"),
        ('base = "../recipes/small/dismec.toml"', "base = 3", "field 'base': is 3"),
        ('base = "../recipes/small/dismec.toml"', 'base = "none.toml"', "field 'base': there is no recipe"),
        ('base = "../recipes/small/dismec.toml"', 'base = "cost.toml"', "cost.toml is a study; the base must be"),
        ('dismec.toml"', 'dismec.toml"\nseed = 1', "field 'seed': stands beside a base"),
        ('base = "../recipes/small/dismec.toml"', "", "cost.toml, field 'data.train': is missing"),
    ],
)
def test_a_mistake_names_the_file_the_variant_and_the_field(study, old, new, message):
    text = study.read_text()
    assert old in text
    study.write_text(text.replace(old, new, 1))
    with pytest.raises(DataError, match=message):
        read_file(study)


def test_a_mistake_in_the_base_names_the_base(study):
    base = study.parents[1] / "recipes" / "small" / "dismec.toml"
    base.write_text(BASE.replace("C = 0.5", "C = -1"))
    with pytest.raises(DataError, match=r"dismec\.toml, field 'model': C is -1"):
        read_file(study)


def test_every_study_of_the_project_is_valid_and_names_nothing_twice():
    files = [*sorted((ROOT / "recipes").glob("*/*.toml")), *sorted((ROOT / "studies").glob("*.toml"))]
    experiments = read_experiments(files)
    assert sum(recipe.study for recipe in experiments) >= 20
    for recipe in experiments:
        if not recipe.study:
            assert read_recipe(recipe.path).name == recipe.path.stem
