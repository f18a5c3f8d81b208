"""Studies: one recipe and named variants of it in one TOML file.

    base = "../recipes/eurlex57k/xgrank.toml"    # or a whole recipe in place of this line

    [variants.xgrank-bce.model.parameters]
    loss = "bce"

A variant overrides fields of the base, table by table. Its name is the name of its result.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from longtail.bench.recipe import Recipe, check_file_name, parse_recipe, read_recipe, read_toml
from longtail.core.registry import unknown
from longtail.errors import DataError, ParameterError


def read_experiments(paths: Iterable[str | os.PathLike[str]], variants: Sequence[str] = ()) -> list[Recipe]:
    """Read recipes and studies, in this order.

    Parameters
    ----------
    paths : iterable of paths
        Recipe and study files.
    variants : sequence of str, optional
        Names of the variants to keep; all where it is empty. Recipes are always kept.

    Returns
    -------
    list of Recipe
        One per recipe and per variant; no two have the same dataset and name.

    Raises
    ------
    DataError
        If a file cannot be used, or two experiments would write the same result.
    ParameterError
        If no study has a variant of one of these names.
    """
    found = [recipe for path in paths for recipe in read_file(path)]
    known = [recipe.name for recipe in found if recipe.study]
    for name in variants:
        if name not in known:
            message = unknown("variant", name, known) if known else f'no study was given that has a variant "{name}"'
            raise ParameterError(f"--variant: {message}")
    kept = [recipe for recipe in found if not recipe.study or not variants or recipe.name in variants]
    seen: dict[str, Recipe] = {}
    for recipe in kept:
        other = seen.setdefault(recipe.title, recipe)
        if other is not recipe:
            raise DataError(f"has the same dataset and name as {other.where}: {recipe.title}", path=recipe.where)
    return kept


def read_file(path: str | os.PathLike[str]) -> list[Recipe]:
    """Read a recipe, or all variants of a study."""
    path = Path(path)
    content = read_toml(path)
    return _variants(content, path) if {"base", "variants"} & content.keys() else [read_recipe(path)]


def merged(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the base with its fields overridden; where both have a table, the tables are merged."""
    result = dict(base)
    for name, value in changes.items():
        both_tables = isinstance(value, Mapping) and isinstance(result.get(name), Mapping)
        result[name] = merged(result[name], value) if both_tables else value
    return result


def _variants(content: dict[str, Any], path: Path) -> list[Recipe]:
    content = dict(content)
    variants = content.pop("variants", None)
    if not isinstance(variants, dict) or not variants:
        raise DataError("must be a table with one table per variant", path=path, field="variants")
    base, folders = _base(content, path)
    found = []
    for name, changes in variants.items():
        field = f"variants.{name}"
        check_file_name(name, path, field)
        if not isinstance(changes, dict):
            raise DataError(f"is {changes!r}, but must be a table", path=path, field=field)
        recipe = parse_recipe(merged(base, changes), path, name, prefix=f"{field}.")
        found.append(replace(recipe, study=True, folders=folders))
    return found


def _base(content: dict[str, Any], path: Path) -> tuple[dict[str, Any], tuple[Path, ...]]:
    """The base's content, checked, and the folders that data may be relative to."""
    if "base" not in content:
        parse_recipe(content, path, path.stem)  # mistakes in the base do not name a variant
        return content, (path.parent,)
    file = content.pop("base")
    if not isinstance(file, str):
        raise DataError(f"is {file!r}, but must be the path of a recipe", path=path, field="base")
    if content:
        raise DataError(
            f"stands beside a base; only variants change fields of {file}", path=path, field=next(iter(content))
        )
    recipe = path.parent / file
    if not recipe.is_file():
        raise DataError(f"there is no recipe {recipe}", path=path, field="base")
    base = read_toml(recipe)
    if "variants" in base or "base" in base:
        raise DataError(f"{recipe} is a study; the base must be a recipe", path=path, field="base")
    checked = read_recipe(recipe)  # mistakes in the base name its file
    return {"dataset": checked.dataset} | base, (path.parent, recipe.parent)
