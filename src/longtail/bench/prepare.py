"""The data of a recipe as features, in a cache folder: recipes with the same data and features share one pass."""

from __future__ import annotations

import hashlib
import json
import shutil
import time
from dataclasses import replace
from pathlib import Path

from longtail.bench.recipe import Recipe, text_features
from longtail.core.store import sha256
from longtail.data import Dataset, read_dataset, write_dataset
from longtail.errors import DataError
from longtail.features.scaling import unit_rows

_VERSION = 2  # raise it when the preparation changes, so that nothing old is used


class MissingData(DataError):
    """The data of a recipe is not on this machine."""


def locate(recipe: Recipe, data_root: Path) -> tuple[Path, Path]:
    """Return the training and the test file, found below the data root or else beside the recipe."""
    found = []
    for relative in (recipe.train, recipe.test):
        places = [data_root / relative, *(folder / relative for folder in recipe.folders)]
        place = next((place for place in places if place.exists()), None)
        if place is None:
            raise MissingData(
                f"{relative} is neither below the data root {data_root} nor beside the recipe; "
                "give --data-root FOLDER or set LONGTAIL_DATA"
            )
        found.append(place)
    return found[0], found[1]


def prepared(recipe: Recipe, data_root: Path, cache: Path) -> Path:
    """Return the folder with `train` and `test` (dataset directories) and `features.json` (what was done, seconds)."""
    train, test = locate(recipe, data_root)
    identity = {"version": _VERSION, "features": recipe.features, "train": _digest(train), "test": _digest(test)}
    if recipe.reads_texts:
        identity["features"] = "none: texts as they are"
    key = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:16]
    folder = cache / f"{recipe.dataset}-{key}"
    if (folder / "features.json").is_file():
        return folder
    shutil.rmtree(folder, ignore_errors=True)  # what an interrupted preparation left
    folder.mkdir(parents=True)
    started = time.perf_counter()
    training, testing = _featurised(recipe, read_dataset(train), test)
    description = identity | {"seconds": time.perf_counter() - started}
    write_dataset(training, folder / "train")
    write_dataset(testing, folder / "test")
    (folder / "features.json").write_text(json.dumps(description, indent=1))
    return folder


def _featurised(recipe: Recipe, training: Dataset, test: Path) -> tuple[Dataset, Dataset]:
    # Test labels that training does not know keep ids beyond it: they count as misses.
    testing = read_dataset(test, label_names=training.label_names)
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
