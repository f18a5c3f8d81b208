"""Recipes: one experiment as a TOML file, checked field by field before anything runs."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from longtail.core.registry import unknown
from longtail.errors import DataError, LongtailError
from longtail.features.text import TextFeatures
from longtail.objectives import PropensityModel
from longtail.workflow.build import build_estimator, parse_propensity

_SECTIONS: dict[str, dict[str, type | tuple[type, ...]]] = {
    "data": {"train": str, "test": str},
    "model": {"name": str, "base": str, "weighting": str, "parameters": dict},
    "evaluate": {"propensity": (str, list)},
}
_TOP: dict[str, type | tuple[type, ...]] = {
    "dataset": str, "seed": int, "threads": int,
    "data": dict, "features": dict, "model": dict, "evaluate": dict,
}  # fmt: skip
_REQUIRED = (("data", "train"), ("data", "test"), ("model", "name"))


@dataclass(frozen=True)
class Recipe:
    """What to train on what. `train` and `test` are relative to the data root, or else to the recipe's folder; files
    that parameters name (word vectors, label texts) are relative to the data root.

    `features`: parameters of TextFeatures for texts, or `{"normalise": True}` for features whose rows are to be scaled
    to unit length. Both are done before training, and kept, so that recipes with the same data and features share them.
    """

    path: Path
    dataset: str
    train: str
    test: str
    model: str
    base: str | None = None
    weighting: str | None = None
    parameters: dict[str, Any] = field(default_factory=dict)
    features: dict[str, Any] = field(default_factory=dict)
    seed: int = 0
    threads: int | None = None
    propensity: PropensityModel = field(default_factory=PropensityModel)

    @property
    def title(self) -> str:
        return f"{self.dataset}/{self.path.stem}"

    @property
    def reads_texts(self) -> bool:
        return bool(self.estimator().input_kind == "text")

    def estimator(self) -> Any:
        """The unfitted estimator; it is trained on features, whatever the data are, unless it reads texts itself."""
        return build_estimator(
            self.model, base=self.base, weighting=self.weighting, settings=self.parameters,
            threads=self.threads, seed=self.seed,
        )  # fmt: skip


def read_recipe(path: str | os.PathLike[str]) -> Recipe:
    """The recipe in a TOML file; every mistake names the file and the field."""
    path = Path(path)
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise DataError("there is no such recipe", path=path) from error
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise DataError(f"the recipe cannot be read as TOML ({error})", path=path) from error
    _check_fields(path, content, _TOP, "")
    for section, fields in _SECTIONS.items():
        _check_fields(path, content.get(section, {}), fields, f"{section}.")
    for section, name in _REQUIRED:
        if name not in content.get(section, {}):
            raise DataError("is missing", path=path, field=f"{section}.{name}")
    model = content["model"]
    recipe = Recipe(
        path=path,
        dataset=content.get("dataset", path.resolve().parent.name),
        train=content["data"]["train"],
        test=content["data"]["test"],
        model=model["name"],
        base=model.get("base"),
        weighting=model.get("weighting"),
        parameters=model.get("parameters", {}),
        features=content.get("features", {}),
        seed=content.get("seed", 0),
        threads=content.get("threads"),
        propensity=_checked(
            path, "evaluate.propensity", parse_propensity, content.get("evaluate", {}).get("propensity", "default")
        ),
    )
    _checked(path, "model", lambda _: recipe.estimator().check_parameters(), None)
    _check_features(recipe)
    if recipe.features and recipe.reads_texts:
        raise DataError(f"{recipe.model} reads texts and takes no features", path=path, field="features")
    return recipe


def find_data_root(given: Path | None, recipe: Path) -> Path:
    """Where datasets lie: what the caller says, $LONGTAIL_DATA, or `../shared/data` beside the recipe's repository."""
    if given is not None:
        return given
    if "LONGTAIL_DATA" in os.environ:
        return Path(os.environ["LONGTAIL_DATA"])
    default = Path("shared/data")
    for folder in recipe.resolve().parents:
        if (folder / default).is_dir():
            return folder / default
    return Path("..") / default


def _check_fields(path: Path, content: Mapping[str, Any], fields: Mapping[str, Any], prefix: str) -> None:
    for name, value in content.items():
        if name not in fields:
            raise DataError(unknown("field", name, fields), path=path, field=f"{prefix}{name}")
        if not isinstance(value, fields[name]) or (fields[name] is int and isinstance(value, bool)):
            wanted = fields[name] if isinstance(fields[name], tuple) else (fields[name],)
            names = " or ".join(
                {"dict": "table", "str": "string", "int": "whole number"}.get(t.__name__, t.__name__) for t in wanted
            )
            raise DataError(f"is {value!r}, but must be a {names}", path=path, field=f"{prefix}{name}")


def _checked(path: Path, name: str, make: Any, value: Any) -> Any:
    try:
        return make(value)
    except LongtailError as error:
        raise DataError(str(error), path=path, field=name) from error


def _check_features(recipe: Recipe) -> None:
    known = [*TextFeatures._get_param_names(), "normalise"]
    for name in recipe.features:
        if name not in known:
            raise DataError(unknown("field", name, known), path=recipe.path, field=f"features.{name}")
    normalise = recipe.features.get("normalise", False)
    if not isinstance(normalise, bool):
        raise DataError("must be true or false", path=recipe.path, field="features.normalise")
    _checked(recipe.path, "features", lambda _: text_features(recipe.features).check_parameters(), None)


def text_features(features: Mapping[str, Any]) -> TextFeatures:
    """TextFeatures with a recipe's parameters; TOML has no tuples, and `ngram_range` is one."""
    parameters: dict[str, Any] = {
        name: tuple(v) if isinstance(v, list) else v for name, v in features.items() if name != "normalise"
    }
    return TextFeatures(**parameters)
