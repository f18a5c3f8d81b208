"""longtail demo: what weighting the loss does for rare labels, end to end, on generated data or your own."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from longtail.app import options
from longtail.app.reading import read, reads_data
from longtail.core.urls import path_or_url

# (name in the table, model, weighting)
CONTESTANTS = (
    ("popularity", "popularity", None),
    ("dismec", "dismec", None),
    ("dismec, pw", "dismec", "pw"),
    ("dismec, pw-cb", "dismec", "pw-cb"),
)
CHOICE = "auto"


@reads_data
def demo(
    data: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help=f"Your own data instead of generated data. {options.DATA_HELP}", parser=path_or_url
        ),
    ] = None,
    seed: Annotated[
        int, typer.Option(metavar="S", help="Seed of the generated data, or of the split of your own.")
    ] = 0,
    threads: Annotated[int | None, typer.Option(metavar="N", help="Number of threads; default: all cores.")] = None,
    *,
    reading: dict[str, Any],
) -> None:
    """Train four models, let AutoModel choose one, and show what rare labels gain.

    Without --data the data is generated: label frequencies follow a power law.
    Most occurrences of rare labels are missing, as in real data.
    The complete labels are known, and one column compares with them.
    """
    from longtail.app.console import print_table, print_text, say
    from longtail.core.parameters import check_whole
    from longtail.errors import DataError

    check_whole("seed", seed, 0)
    options.check_threads(threads)
    task = made_up(seed) if data is None else split(read(data, reading), seed)
    say(f"{task.n_train:,} training points, {task.n_test:,} test points, {task.n_labels:,} labels")
    compile_kernels(task)
    rows = {name: contest(task, model, weighting, threads)[1] for name, model, weighting in CONTESTANTS}
    try:
        chosen, rows[CHOICE] = contest(task, CHOICE, None, threads)
        choice = chosen.report_
    except DataError as error:  # too little data to hold points out; the others have been trained
        choice = [str(error)]
    columns = [column for column in next(iter(rows.values())) if column != "train s"] + ["train s"]
    print_table(
        "test set (percent)",
        ["model", *columns],
        [[name, *(f"{row[column]:.1f}" for column in columns)] for name, row in rows.items()],
    )
    print_text(verdict(rows["dismec"], rows["dismec, pw"], rows["dismec, pw-cb"]))
    print_text("\n".join([f"{CHOICE} (longtail train without --model):", *choice]))


@dataclass(frozen=True)
class Task:
    """Training and test data."""

    X: Any
    Y: Any
    X_test: Any
    Y_test: Any
    complete_Y_test: Any = None  # known only for generated data

    @property
    def n_train(self) -> int:
        return int(self.Y.shape[0])

    @property
    def n_test(self) -> int:
        return int(self.Y_test.shape[0])

    @property
    def n_labels(self) -> int:
        return int(self.Y.shape[1])


def made_up(seed: int) -> Task:
    """Return generated data."""
    from longtail.app.console import status
    from longtail.data import make_longtail

    with status("generating data"):
        made = make_longtail(random_state=seed)
    return Task(made.train.X, made.train.Y, made.test.X, made.test.Y, made.test_complete_Y)


def split(dataset: Any, seed: int) -> Task:
    """Return four fifths of the data to train on and one fifth to test on; texts become features."""
    import numpy as np

    from longtail.app.console import status
    from longtail.errors import DataError
    from longtail.features.text import TextFeatures

    if dataset.n_points < 10:
        raise DataError(f"the demo needs at least 10 points to train and test on; there are {dataset.n_points}")
    order = np.random.default_rng(seed).permutation(dataset.n_points)
    n_test = dataset.n_points // 5
    train, test = dataset.subset(np.sort(order[n_test:])), dataset.subset(np.sort(order[:n_test]))
    if dataset.X is not None:
        return Task(train.X, train.Y, test.X, test.Y)
    with status("turning texts into features"):
        features = TextFeatures(min_df=min(2, max(1, train.n_points // 100)))
        return Task(features.fit_transform(train.texts), train.Y, features.transform(test.texts), test.Y)


def compile_kernels(task: Task) -> None:
    """Train on a few points first, so that compiling (once per machine) is not part of the measured time."""
    import numpy as np

    from longtail.app.console import status
    from longtail.workflow.build import build_estimator

    few = np.flatnonzero(np.diff(task.Y.indptr))[:64]
    if few.size:
        with status("compiling (once per machine)"):
            for name in ("dismec", "bonsai"):
                build_estimator(name).fit(task.X[few], task.Y[few])


def contest(task: Task, name: str, weighting: str | None, threads: int | None) -> tuple[Any, dict[str, float]]:
    """Train one model and return it with the numbers of its row."""
    from longtail.app.console import progress
    from longtail.core.run import Run
    from longtail.metrics import evaluate
    from longtail.workflow.apply import predict_in_chunks
    from longtail.workflow.build import build_estimator
    from longtail.workflow.score import KS, score_predictions

    model = build_estimator(name, weighting=weighting, threads=threads)
    started = time.perf_counter()
    model.fit(task.X, task.Y, run=Run(progress()))
    seconds = time.perf_counter() - started
    predictions = predict_in_chunks(model, task.X_test, KS[-1])
    scores = score_predictions(
        predictions, task.Y_test, training_counts=model.label_counts_, n_training_points=model.n_points_
    )
    k = scores.k
    names = ("P@1", f"P@{k}", "PSP@1", f"PSP@{k}", f"macro-F1@{k}", f"coverage@{k}")
    row = {key: scores.metrics[key] for key in dict.fromkeys(names)}
    row[f"tail R@{k}"] = 100 * scores.bands["tail"]["recall"] if scores.bands else 0.0
    if task.complete_Y_test is not None:
        row[f"P@{k}, complete labels"] = evaluate(predictions, task.complete_Y_test, ks=(k,))[f"P@{k}"]
    return model, row | {"train s": seconds}


def verdict(plain: dict[str, float], *weighted: dict[str, float]) -> str:
    """Return one sentence on what the tail gained or lost by weighting."""
    tail = next(key for key in plain if key.startswith("tail"))
    k = tail.split("@")[1]
    best = max(weighted, key=lambda row: row[tail])
    gain = best[tail] - plain[tail]
    cost = best[f"P@{k}"] - plain[f"P@{k}"]
    numbers = f"recall of tail labels in the top {k}: {plain[tail]:.1f} % without weighting, {best[tail]:.1f} % with it"
    price = f"P@{k} changes by {cost:+.1f} points"
    if gain >= 0.05:
        return f"The tail gained {gain:.1f} points ({numbers}); {price}."
    if gain <= -0.05:
        return f"The tail lost {-gain:.1f} points ({numbers}); {price}: weighting does not help on this data."
    return f"The tail gained nothing ({numbers}); {price}."
