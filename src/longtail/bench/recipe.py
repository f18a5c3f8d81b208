"""Recipes: one experiment per TOML file, checked field by field before anything runs."""

from __future__ import annotations

import dataclasses
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from longtail.bench.split import check_share
from longtail.core.registry import unknown
from longtail.core.sets import check_threshold
from longtail.data.reading import Reading
from longtail.errors import DataError, LongtailError, first_line
from longtail.features.text import TextFeatures
from longtail.objectives import PropensityModel
from longtail.workflow.build import build_estimator, parse_propensity

_SECTIONS: dict[str, dict[str, type | tuple[type, ...]]] = {
    "data": {"train": str, "test": str, "held_out": float, "sample": int, "split_seed": int, "reading": dict},
    "model": {"name": str, "base": str, "weighting": str, "parameters": dict},
    "evaluate": {"propensity": (str, list), "threshold": float},
}
_TOP: dict[str, type | tuple[type, ...]] = {
    "dataset": str, "seed": int, "threads": int,
    "data": dict, "features": dict, "model": dict, "evaluate": dict,
}  # fmt: skip
_SPLIT = ("held_out", "sample", "split_seed", "reading")
_REQUIRED = (("data", "train"), ("model", "name"))


@dataclass(frozen=True)
class Recipe:
    """What to train on what, and how to score it.

    `train` and `test` are relative to the data root, or else to the recipe's folder. Files that parameters name (word
    vectors, label texts) are relative to the data root.

    A recipe without a test file holds points out of the training file: `held_out` is their share, `split_seed` the seed
    of the split. `sample` takes that many points at random before anything else. `reading` holds options of
    `read_dataset`, e.g. the column of the texts.

    `features` holds parameters of TextFeatures for texts, or `{"unit_rows": True}` to scale the rows of given features
    to unit length. Features are computed before training and cached; recipes with the same data and features share
    them.

    With a `threshold`, the model is calibrated after its training, and sets of the labels with this probability or more
    are scored as well.

    A variant of a study is a recipe, too: `study` is then true, and `path` is the study's file.
    """

    path: Path
    name: str
    dataset: str
    train: str
    test: str | None
    model: str
    base: str | None = None
    weighting: str | None = None
    parameters: dict[str, Any] = field(default_factory=dict)
    features: dict[str, Any] = field(default_factory=dict)
    seed: int = 0
    threads: int | None = None
    propensity: PropensityModel = field(default_factory=PropensityModel)
    threshold: float | None = None
    study: bool = False
    folders: tuple[Path, ...] = ()
    held_out: float | None = None
    sample: int | None = None
    split_seed: int = 0
    reading: dict[str, Any] = field(default_factory=dict)

    @property
    def title(self) -> str:
        """`<dataset>/<name>`: unique among the results of one folder."""
        return f"{self.dataset}/{self.name}"

    @property
    def where(self) -> str:
        """The file, and the variant in it, for messages."""
        return f"{self.path}, variant {self.name!r}" if self.study else str(self.path)

    @property
    def reads_texts(self) -> bool:
        return bool(self.estimator().input_kind == "text")

    def estimator(self) -> Any:
        """Return the unfitted estimator; it is trained on features unless it reads texts itself."""
        return build_estimator(
            self.model, base=self.base, weighting=self.weighting, settings=self.parameters,
            threads=self.threads, seed=self.seed,
        )  # fmt: skip


def read_toml(path: Path) -> dict[str, Any]:
    """Return the content of a recipe or study file."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise DataError("there is no such recipe", path=path) from error
    except (OSError, UnicodeDecodeError, RecursionError, tomllib.TOMLDecodeError) as error:
        raise DataError(f"the recipe cannot be read as TOML ({first_line(error)})", path=path) from error


def read_recipe(path: str | os.PathLike[str]) -> Recipe:
    """Read a recipe from a TOML file; every mistake names the file and the field."""
    path = Path(path)
    return parse_recipe(read_toml(path), path, path.stem)


def parse_recipe(content: Mapping[str, Any], path: Path, name: str, prefix: str = "") -> Recipe:
    """Check the content of a recipe field by field; in messages `prefix` stands before the names of fields."""
    _check_fields(path, content, _TOP, prefix)
    for section, fields in _SECTIONS.items():
        _check_fields(path, content.get(section, {}), fields, f"{prefix}{section}.")
    for section, required in _REQUIRED:
        if required not in content.get(section, {}):
            raise DataError("is missing", path=path, field=f"{prefix}{section}.{required}")
    _check_split(content["data"], path, prefix)
    _check_reading(content["data"].get("reading", {}), path, f"{prefix}data.reading")
    dataset = content.get("dataset", path.resolve().parent.name)
    check_file_name(dataset, path, f"{prefix}dataset")
    model, evaluate = content["model"], content.get("evaluate", {})
    propensity, threshold = evaluate.get("propensity", "default"), evaluate.get("threshold")
    if threshold is not None:
        _checked(path, f"{prefix}evaluate.threshold", check_threshold, threshold)
    recipe = Recipe(
        path=path,
        name=name,
        dataset=dataset,
        train=content["data"]["train"],
        test=content["data"].get("test"),
        model=model["name"],
        base=model.get("base"),
        weighting=model.get("weighting"),
        parameters=model.get("parameters", {}),
        features=content.get("features", {}),
        seed=content.get("seed", 0),
        threads=content.get("threads"),
        propensity=_checked(path, f"{prefix}evaluate.propensity", parse_propensity, propensity),
        threshold=threshold,
        folders=(path.parent,),
        **{name: content["data"][name] for name in _SPLIT if name in content["data"]},
    )
    _checked(path, f"{prefix}model", lambda _: recipe.estimator().check_parameters(), None)
    _check_features(recipe, prefix)
    if recipe.features and recipe.reads_texts:
        raise DataError(f"{recipe.model} reads texts and takes no features", path=path, field=f"{prefix}features")
    return recipe


def _check_split(data: Mapping[str, Any], path: Path, prefix: str) -> None:
    """Refuse data without a part to score on, or with two of them, and sizes that cannot be."""
    field = f"{prefix}data.held_out" if "held_out" in data else f"{prefix}data.test"
    if ("test" in data) == ("held_out" in data):
        raise DataError("give either a test file or the share to hold out (held_out)", path=path, field=field)
    if "held_out" in data:
        _checked(path, field, check_share, data["held_out"])
    if data.get("sample", 2) < 2:
        raise DataError("must be at least 2 points", path=path, field=f"{prefix}data.sample")
    if data.get("split_seed", 0) < 0:
        raise DataError("must be 0 or above", path=path, field=f"{prefix}data.split_seed")


def _check_reading(options: Mapping[str, Any], path: Path, field: str) -> None:
    """Refuse what `read_dataset` would refuse, before the data is read."""
    known = [option.name for option in dataclasses.fields(Reading)]
    for name in options:
        if name not in known:
            raise DataError(unknown("field", name, known), path=path, field=f"{field}.{name}")
    _checked(path, field, lambda _: Reading(**options), None)


def check_file_name(name: str, path: Path, where: str) -> None:
    """Refuse a name that cannot be one part of a result file's path."""
    if not name or name.startswith(".") or set(name) & set("/\\:\0"):
        raise DataError(f"{name!r} cannot be part of a file name", path=path, field=where)


def find_data_root(given: Path | None, recipe: Path) -> Path:
    """Return the folder of datasets: `given`, else $LONGTAIL_DATA, else `shared/data` in a folder above the recipe."""
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


def _check_features(recipe: Recipe, prefix: str) -> None:
    known = [*TextFeatures().get_params(), "unit_rows"]
    for name in recipe.features:
        if name not in known:
            raise DataError(unknown("field", name, known), path=recipe.path, field=f"{prefix}features.{name}")
    unit_rows = recipe.features.get("unit_rows", False)
    if not isinstance(unit_rows, bool):
        raise DataError("must be true or false", path=recipe.path, field=f"{prefix}features.unit_rows")
    _checked(recipe.path, f"{prefix}features", lambda _: text_features(recipe.features).check_parameters(), None)


def text_features(features: Mapping[str, Any]) -> TextFeatures:
    """Return TextFeatures with a recipe's parameters (TOML has no tuples, and `ngram_range` is one)."""
    parameters: dict[str, Any] = {
        name: tuple(v) if isinstance(v, list) else v for name, v in features.items() if name != "unit_rows"
    }
    return TextFeatures(**parameters)
