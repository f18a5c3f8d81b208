"""Recipes by their names, and their data as features."""

from __future__ import annotations

import argparse
from dataclasses import replace
from functools import cache
from pathlib import Path

from benchmarks.common.record import ROOT
from longtail.bench.prepare import prepared
from longtail.bench.recipe import Recipe, find_data_root
from longtail.bench.study import read_experiments
from longtail.data import Dataset, read_dataset

CACHE = ROOT / ".cache" / "features"


@cache
def _experiments() -> dict[str, Recipe]:
    files = [*sorted((ROOT / "recipes").glob("*/*.toml")), *sorted((ROOT / "studies").glob("*.toml"))]
    return {recipe.title: recipe for recipe in read_experiments(files)}


def recipe_named(title: str) -> Recipe:
    """Return a recipe or a variant of a study by its title, e.g. "eurlex57k/ranknet-parabel"."""
    if title not in _experiments():
        raise SystemExit(f"no recipe or study has {title}")
    return _experiments()[title]


def add_data_root(parser: argparse.ArgumentParser) -> None:
    """Add the option `--data-root FOLDER`."""
    parser.add_argument("--data-root", type=Path, metavar="FOLDER", help="default: $LONGTAIL_DATA, ../shared/data")


def data_root(given: Path | None = None) -> Path:
    """Return the folder of datasets: `given`, else $LONGTAIL_DATA, else shared/data in a folder above."""
    return find_data_root(given, ROOT / "recipes")


def features_of(recipe: Recipe, given: Path | None = None, *, test: str | None = None) -> tuple[Dataset, Dataset]:
    """Return the training and test data of a recipe as features; `test` names another file, e.g. the dev split's."""
    folder = features_folder(replace(recipe, test=test) if test else recipe, given)
    return read_dataset(folder / "train"), read_dataset(folder / "test")


def features_folder(recipe: Recipe, given: Path | None = None) -> Path:
    """Return the folder with `train` and `test`, as `longtail bench` keeps it; MissingData where there is no data."""
    return prepared(recipe, data_root(given), CACHE)
