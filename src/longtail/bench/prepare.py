"""The data of a recipe as features, in a cache folder: recipes with the same data and features share one pass."""

from __future__ import annotations

import hashlib
import json
import shutil
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from longtail.bench.recipe import Recipe, text_features
from longtail.bench.split import hold_out, sampled
from longtail.core.store import sha256
from longtail.data import Dataset, read_dataset, write_dataset
from longtail.errors import DataError
from longtail.features.scaling import unit_rows

_VERSION = 2  # raise it when the preparation changes, so that nothing old is used


class MissingData(DataError):
    """The data of a recipe is not on this machine."""


def locate(recipe: Recipe, data_root: Path) -> list[Path]:
    """Return the training file and, if there is one, the test file, found below the data root or beside the recipe."""
    found = []
    for relative in (recipe.train, recipe.test):
        if relative is None:
            continue
        places = [data_root / relative, *(folder / relative for folder in recipe.folders)]
        place = next((place for place in places if place.exists()), None)
        if place is None:
            raise MissingData(
                f"{relative} is neither below the data root {data_root} nor beside the recipe; "
                "give --data-root FOLDER or set LONGTAIL_DATA"
            )
        found.append(place)
    return found


def prepared(recipe: Recipe, data_root: Path, cache: Path) -> Path:
    """Return the folder with `train` and `test` (dataset directories) and `features.json` (what was done, seconds)."""
    files = locate(recipe, data_root)
    identity: dict[str, Any] = {"version": _VERSION, "features": recipe.features}
    identity |= dict(zip(("train", "test"), map(_digest, files), strict=False)) | _split_of(recipe)
    if recipe.reads_texts:
        identity["features"] = "none: texts as they are"
    key = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:16]
    folder = cache / f"{recipe.dataset}-{key}"
    if (folder / "features.json").is_file():
        return folder
    shutil.rmtree(folder, ignore_errors=True)  # what an interrupted preparation left
    folder.mkdir(parents=True)
    started = time.perf_counter()
    training, testing = _featurised(recipe, *_parts(recipe, files))
    description = identity | {"seconds": time.perf_counter() - started}
    write_dataset(training, folder / "train")
    write_dataset(testing, folder / "test")
    (folder / "features.json").write_text(json.dumps(description, indent=1))
    return folder


def _split_of(recipe: Recipe) -> dict[str, Any]:
    """Return what else decides which points are trained on; nothing for a recipe of two whole files."""
    given = {"held_out": recipe.held_out, "sample": recipe.sample, "reading": recipe.reading or None}
    drawn = recipe.held_out is not None or recipe.sample is not None
    return {name: value for name, value in given.items() if value is not None} | (
        {"split_seed": recipe.split_seed} if drawn else {}
    )


def _parts(recipe: Recipe, files: list[Path]) -> tuple[Dataset, Dataset]:
    training = read_dataset(files[0], **recipe.reading)
    if recipe.sample is not None:
        training = sampled(training, recipe.sample, recipe.split_seed)
    if recipe.held_out is not None:
        train, dev = hold_out(training.n_points, recipe.held_out, recipe.split_seed)
        return training.subset(train), training.subset(dev)
    # Test labels that training does not know keep ids beyond it: they count as misses.
    return training, read_dataset(files[1], label_names=training.label_names, **recipe.reading)


def _featurised(recipe: Recipe, training: Dataset, testing: Dataset) -> tuple[Dataset, Dataset]:
    if recipe.reads_texts:
        if training.texts is None:
            raise DataError("the model reads texts, but the data has features", path=recipe.path, field="model.name")
        return training, testing
    if training.X is None:
        features = text_features(recipe.features)
        X, X_test = features.fit_transform(training.texts), features.transform(testing.texts)
    else:
        if set(recipe.features) - {"unit_rows"}:
            raise DataError(
                "the data has features already; only unit_rows can be used", path=recipe.path, field="features"
            )
        X, X_test = training.X, testing.X
    if recipe.features.get("unit_rows", False):
        X, X_test = unit_rows(X), unit_rows(X_test)
    return replace(training, X=X, texts=None), replace(testing, X=X_test, texts=None)


def _digest(path: Path) -> str:
    files = [path] if path.is_file() else sorted(path.iterdir())
    return "-".join(sha256(file)[:16] for file in files)
