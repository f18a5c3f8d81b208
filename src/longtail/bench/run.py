"""Running a recipe: prepare its data, measure it in a process of its own, and say where and with what it ran."""

from __future__ import annotations

import datetime
import json
import os
import platform
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from longtail.bench.prepare import prepared
from longtail.bench.recipe import Recipe
from longtail.core.codec import encode
from longtail.core.model import library_versions
from longtail.errors import LongtailError


class RunError(LongtailError):
    """A run of a recipe ended without a result."""


def run_recipe(recipe: Recipe, data_root: Path, cache: Path) -> dict[str, Any]:
    """The result of a recipe, ready to be written as JSON; raises MissingData where its data are absent."""
    data = prepared(recipe, data_root, cache)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "result.json"
        # Files that parameters name lie where the data lie.
        place = data_root if data_root.is_dir() else recipe.path.parent
        job = [str(path.resolve()) for path in (recipe.path, data, file, place)]
        done = subprocess.run([sys.executable, "-m", "longtail.bench.worker", *job], check=False)
        if not file.is_file():
            raise RunError(f"{recipe.path}: the run ended with exit code {done.returncode} and no result")
        outcome = json.loads(file.read_text())
    if "error" in outcome:
        raise RunError(f"{recipe.path}: {outcome['error']}")
    return {
        "dataset": recipe.dataset,
        "recipe": recipe.path.stem,
        "model": recipe.model,
        "weighting": recipe.weighting,
        "parameters": encode(recipe.estimator())["params"],
        "features": recipe.features,
        "seed": recipe.seed,
        "propensity": [recipe.propensity.A, recipe.propensity.B],
        **outcome,
        "command": f"longtail bench recipes/{recipe.dataset}/{recipe.path.name}",
        "date": datetime.date.today().isoformat(),
        "commit": commit(),
        "machine": machine(),
        "versions": library_versions(),
    }


def commit() -> str:
    """The commit of the source tree, marked where it has changes; 'unknown' for an installed package."""
    here = Path(__file__).parent

    def git(*arguments: str) -> str:
        done = subprocess.run(["git", "-C", str(here), *arguments], capture_output=True, text=True, check=True)
        return done.stdout.strip()

    try:
        return git("rev-parse", "--short", "HEAD") + ("+" if git("status", "--porcelain", "--", "../..") else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def machine() -> str:
    """Processor, cores that may be used, memory: enough to judge seconds by."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    name = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.is_file():
        lines = [line for line in cpuinfo.read_text().splitlines() if line.startswith("model name")]
        name = lines[0].split(":", 1)[1].strip() if lines else name
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"{name}, {cores} cores, {memory:.0f} GiB"
