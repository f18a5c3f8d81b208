"""Run a recipe: prepare its data, measure it in its own process, and record where and with what it ran."""

from __future__ import annotations

import datetime
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from longtail.bench.machine import commit, machine
from longtail.bench.prepare import prepared
from longtail.bench.recipe import Recipe
from longtail.core.codec import encode
from longtail.core.model import library_versions
from longtail.core.unfinished import temporary_folder
from longtail.errors import LongtailError


class RunError(LongtailError):
    """A run of a recipe ended without a result."""


def run_recipe(recipe: Recipe, data_root: Path, cache: Path) -> dict[str, Any]:
    """Return the result of a recipe, ready to be written as JSON; raise MissingData where its data is absent."""
    data = prepared(recipe, data_root, cache)
    with temporary_folder() as folder:
        file = folder / "result.json"
        # Files that parameters name are looked up where the data is.
        place = data_root if data_root.is_dir() else recipe.path.parent
        job = [str(path.resolve()) for path in (recipe.path, data, file, place)] + [recipe.name]
        done = subprocess.run([sys.executable, "-m", "longtail.bench.worker", *job], check=False)
        if not file.is_file():
            raise RunError(f"{recipe.where}: the run ended with exit code {done.returncode} and no result")
        outcome = json.loads(file.read_text())
    if "error" in outcome:
        raise RunError(f"{recipe.where}: {outcome['error']}")
    return {
        "dataset": recipe.dataset,
        "recipe": recipe.name,
        "model": recipe.model,
        "weighting": recipe.weighting,
        "parameters": encode(recipe.estimator())["params"],
        "features": recipe.features,
        "seed": recipe.seed,
        "propensity": [recipe.propensity.A, recipe.propensity.B],
        **outcome,
        "command": command(recipe),
        "date": datetime.date.today().isoformat(),
        "commit": commit(),
        "machine": machine(),
        "versions": library_versions(),
    }


def command(recipe: Recipe) -> str:
    """Return the command that runs this recipe or variant, as one would type it in the repository."""
    if recipe.study:
        return f"longtail bench studies/{recipe.path.name} --variant {recipe.name}"
    return f"longtail bench recipes/{recipe.dataset}/{recipe.path.name}"
