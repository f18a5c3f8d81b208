"""Predictions of the models on the dial, for unseen training points and for test points; each is made once and kept.

    python -m benchmarks.tail.kept --datasets bibtex delicious@0 [--models dismec ...] [--threads N]

The unseen points are those that AutoModel holds out of the same data: what is chosen on them, and what becomes of the
choice on the test points, can then be studied without another training (`benchmarks.tail.price`). Features are those of
the dataset's recipe of DiSMEC. DATASET@SEED takes a fifth of the training points (at most 10,000), drawn with that
seed, in place of the test points, which are not read (`benchmarks.tail.rehearse`). Files go to .cache/dial/DATASET;
delete them after a change of a model.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import numpy as np

from benchmarks.common.data import add_data_root, features_of, recipe_named
from benchmarks.common.record import ROOT
from longtail.compose.frontier import CANDIDATES
from longtail.compose.portfolio import Look, model_named
from longtail.core.predictions import Predictions
from longtail.core.run import Run
from longtail.core.unseen import Splits, predict_unseen
from longtail.data import Dataset
from longtail.workflow.apply import conform

STRENGTHS = ("", "/pw-cb:0.25", "/pw-cb:0.5", "/pw-cb:0.75", "/pw-cb")
_JUDGED, _MOST_JUDGED = 0.2, 10_000  # points in place of test points
MODELS = tuple(f"{kind}{strength}" for strength in STRENGTHS for kind in ("bonsai", "dismec"))


def data_of(dataset: str, root: Path | None) -> tuple[Dataset, Dataset]:
    """Return training and test data of a dataset as features; of DATASET@SEED, two parts of the training data."""
    name, at, seed = dataset.partition("@")
    train, test = features_of(recipe_named(f"{name}/dismec"), root)
    if not at:
        return train, test
    order = np.random.default_rng([int(seed), 1]).permutation(train.n_points)
    size = min(round(_JUDGED * train.n_points), _MOST_JUDGED)
    return train.subset(np.sort(order[size:])), train.subset(np.sort(order[:size]))


def file_of(dataset: str, name: str) -> Path:
    return ROOT / ".cache" / "dial" / dataset / f"{name.replace('/', '-').replace(':', '-')}.npz"


def kept(dataset: str, name: str, part: str) -> Predictions:
    """Return the predictions for `part`: "unseen" points or "test" points."""
    with np.load(file_of(dataset, name)) as found:
        return Predictions(found[f"{part}_labels"], found[f"{part}_scores"])


def splits_of(train: Dataset) -> Splits:
    """Return how AutoModel holds points out of this data."""
    return Splits(random_state=0, **Look.at(train.X, train.Y).splits())


def make(dataset: str, name: str, train: Dataset, test: Dataset, threads: int) -> None:
    """Fit a model without the unseen points and on all points, and keep what it predicts."""
    started = time.process_time()
    new = lambda: model_named(name, n_jobs=threads, random_state=0)  # noqa: E731
    k = min(CANDIDATES, train.n_labels)
    unseen = predict_unseen(new, train.X, train.Y, splits_of(train), k=k, run=Run()).predictions
    model = new().fit(train.X, train.Y)
    tested = model.predict(conform(test, model), k=k)
    file = file_of(dataset, name)
    file.parent.mkdir(parents=True, exist_ok=True)
    arrays = {"unseen_labels": unseen.labels, "unseen_scores": unseen.scores}
    np.savez(file, test_labels=tested.labels, test_scores=tested.scores, **arrays)
    print(f"{dataset} {name}: {time.process_time() - started:.0f} CPU seconds", file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_data_root(parser)
    parser.add_argument("--datasets", nargs="+", metavar="NAME", required=True)
    parser.add_argument("--models", nargs="+", metavar="NAME", default=MODELS)
    parser.add_argument("--threads", type=int, default=-1)
    options = parser.parse_args()
    for dataset in options.datasets:
        missing = [name for name in options.models if not file_of(dataset, name).is_file()]
        if missing:
            train, test = data_of(dataset, options.data_root)
        for name in missing:
            make(dataset, name, train, test, options.threads)


if __name__ == "__main__":
    main()
