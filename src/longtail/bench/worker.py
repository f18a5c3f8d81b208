"""One run in its own process, so that its peak memory is its own.

`python -m longtail.bench.worker FILE DATA RESULT FOLDER NAME`: FILE is a recipe or a study, NAME the recipe or variant
in it; files that parameters name are looked up in FOLDER.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from longtail.bench import memory
from longtail.bench.recipe import Recipe
from longtail.bench.study import read_file
from longtail.core.model import load_model
from longtail.core.run import Run
from longtail.core.store import size_in_bytes
from longtail.core.unfinished import temporary_folder
from longtail.data import Dataset, read_dataset
from longtail.errors import LongtailError, ParameterError
from longtail.workflow.apply import conform, predict_in_chunks
from longtail.workflow.calibrate import calibrate_after_training
from longtail.workflow.score import KS, score_predictions, score_sets


def measure(recipe: Recipe, data: Path) -> dict[str, Any]:
    """Train, save, load, predict and score; return seconds, megabytes and metrics."""
    training, testing = read_dataset(data / "train"), read_dataset(data / "test")
    points = training.texts if recipe.reads_texts else training.X
    if not recipe.reads_texts:
        _compile_kernels(recipe, training)
    model = recipe.estimator()
    started = time.perf_counter()
    model.fit(points, training.Y, label_names=training.label_names)
    train_s = time.perf_counter() - started
    train_peak = memory.peak()
    if recipe.threshold is not None:
        calibrate_after_training(model, points, training.Y, "yes", Run())
    with temporary_folder() as folder:
        path = folder / "model"
        model.save(path)
        size = size_in_bytes(path)
        model = load_model(path)
        inputs = conform(testing, model)
        k = min(KS[-1], model.n_labels_)
        model.predict(inputs[:1], k=k)  # page the file in and load kernels: a service does so once
        started = time.perf_counter()
        predictions = predict_in_chunks(model, inputs, k)
        predict_s = time.perf_counter() - started
        scores = score_predictions(
            predictions, testing.Y, training_counts=model.label_counts_, n_training_points=model.n_points_,
            propensity=recipe.propensity,
        )  # fmt: skip
        sets = {} if recipe.threshold is None else {"sets": score_sets(model, inputs, testing.Y, recipe.threshold)}
    return {
        "metrics": scores.metrics,
        "bands": scores.bands,
        **sets,
        "train_s": train_s,
        "predict_s": predict_s,
        "peak_rss_mb": train_peak / 2**20,
        "model_mb": size / 1e6,
        "n_train": training.n_points,
        "n_test": testing.n_points,
        "n_features": None if recipe.reads_texts else training.n_features,
        "n_labels": training.n_labels,
    }


def _compile_kernels(recipe: Recipe, training: Dataset) -> None:
    """Fit and predict on a few points first: kernels are compiled once per machine, which is not training."""
    for size in (64, 4096):
        few = training.subset(np.arange(min(size, training.n_points)))
        carried = np.flatnonzero(few.label_counts)
        if carried.size == 0:
            continue
        try:
            recipe.estimator().fit(few.X, few.Y[:, carried]).predict(few.X, k=1)
            return
        except ParameterError:  # too few labels for what the recipe asks, e.g. for the children of a tree's node
            continue


def main() -> None:
    file, data, result, place, name = sys.argv[1:]
    os.chdir(place)
    try:
        (recipe,) = [recipe for recipe in read_file(file) if recipe.name == name]
        outcome = measure(recipe, Path(data))
    except LongtailError as error:
        outcome = {"error": str(error)}
    Path(result).write_text(json.dumps(outcome))


if __name__ == "__main__":
    main()
