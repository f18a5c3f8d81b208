"""longtail evaluate: compare a model or a file of predictions with the true labels."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from longtail.app import options
from longtail.app.reading import data_name, read, reads_data

if TYPE_CHECKING:
    from longtail.workflow.score import Scores

ROWS = ("P", "nDCG", "PSP", "PSnDCG", "R", "coverage")
SHOWN_KS = (1, 3, 5)
MOST_UNKNOWN = 0.1  # share of the test labels that training may lack before this looks like a mistake


@reads_data
def evaluate(
    subject: Annotated[
        Path, typer.Argument(metavar="MODEL|FILE", help="Model directory or predictions file.", show_default=False)
    ],
    data: options.Data,
    train: Annotated[
        Path | None,
        typer.Option(metavar="DATA", help="Training data; a predictions FILE needs it for PSP and the bands."),
    ] = None,
    propensity: options.Propensity = "default",
    exponent: options.Exponent = None,
    keep: Annotated[
        bool, typer.Option("--keep", help="Keep the figures beside the MODEL; longtail info shows them.")
    ] = False,
    as_json: options.AsJson = False,
    *,
    reading: dict[str, Any],
) -> None:
    """Evaluate a model or predictions: P, nDCG, PSP, PSnDCG, recall, coverage; head, torso and tail labels.

    PSP, PSnDCG and the frequency bands need the label counts of the training data.
    A model contains them; for a predictions file give --train.
    True labels that the model does not know count as misses.
    """
    import numpy as np

    from longtail.app.console import print_json, say
    from longtail.core import store
    from longtail.errors import DataError, ParameterError
    from longtail.workflow.build import parse_propensity
    from longtail.workflow.score import score_predictions

    if not subject.exists():
        raise DataError("does not exist; give a model directory or a predictions file", path=subject)
    chosen = parse_propensity(propensity)
    if keep:
        _check_kept(subject)
    if store.kind_of(subject) == "model" or subject.is_dir():
        predictions, Y, counts, n_points, names = _from_model(subject, data, train, reading, exponent)
    elif exponent is not None:
        raise ParameterError(f"{subject} is a predictions file; --exponent needs a model")
    else:
        predictions, Y, counts, n_points, names = _from_file(subject, data, train, reading)
    if not np.isin(predictions.labels, Y.indices).any():
        say(f"warning: none of the predicted labels occurs in {data}; do they belong together?")
    if counts is not None:
        _mention_unknown(Y, counts, names)
    scores = score_predictions(predictions, Y, training_counts=counts, n_training_points=n_points, propensity=chosen)
    if counts is None:
        say("PSP, PSnDCG and the bands are left out: they need the training data's label counts (give --train DATA)")
    if as_json:
        print_json(scores.metrics)
    else:
        show(f"{subject} on {data}", scores)
    if keep:
        _keep(subject, data, Y.shape[0], scores, propensity, exponent)


def _check_kept(subject: Path) -> None:
    """Raise an error before the work if the figures cannot be kept."""
    from longtail.core import store
    from longtail.core.evaluations import check_keepable
    from longtail.errors import ParameterError

    if store.kind_of(subject) != "model":
        raise ParameterError(f"--keep writes beside a model, but {subject} is not a model directory")
    check_keepable(subject)


def _keep(model: Path, data: Path, n_points: int, scores: Scores, propensity: str, exponent: float | None) -> None:
    from longtail.app.console import say
    from longtail.core.dates import now
    from longtail.core.evaluations import Evaluation, keep_evaluation

    file = keep_evaluation(
        model, Evaluation(data_name(data), now(), n_points, scores.metrics, scores.bands, propensity, exponent)
    )
    say(f"kept the figures in {file}; longtail info {model} shows them")


# Predictions, observed labels, training points per label, number of training points, names of the labels
Loaded = tuple[Any, Any, Any, int | None, list[str] | None]


def _from_model(path: Path, data: Path, train: Path | None, reading: dict[str, Any], exponent: float | None) -> Loaded:
    from longtail.app.console import progress
    from longtail.errors import DataError, ParameterError
    from longtail.workflow.apply import conform, predict_in_chunks
    from longtail.workflow.score import KS

    model = options.load(path, exponent)
    names = model.label_names_
    counts, n_points = model.label_counts_, model.n_points_
    if names is None and train is not None:  # its labels have the order of the training data
        training = read(train, reading, model=model)
        names = training.label_names
        if training.n_labels != model.n_labels_:
            raise DataError(f"has {training.n_labels} labels, but {path} was trained on {model.n_labels_}", path=train)
    dataset = read(data, reading, model=model, label_names=names)
    if names is None and dataset.label_names is not None:
        raise ParameterError(
            f"{path} was trained without label names, so its labels cannot be matched with those of {data}; "
            "train it with label_names, or give its training data (--train DATA)"
        )
    if train is not None:
        training = read(train, reading, model=model, label_names=dataset.label_names)
        counts, n_points = training.label_counts, training.n_points
    predictions = predict_in_chunks(model, conform(dataset, model), KS[-1], progress())
    return predictions, dataset.binary().Y, counts, n_points, dataset.label_names


def _from_file(path: Path, data: Path, train: Path | None, reading: dict[str, Any]) -> Loaded:
    from longtail.data import read_predictions
    from longtail.data.labels import SEPARATOR
    from longtail.errors import ParameterError

    training = None if train is None else read(train, reading)
    dataset = read(data, reading, label_names=None if training is None else training.label_names)
    if training is not None and training.label_names is None and dataset.label_names is not None:
        raise ParameterError(f"{data} has label names, but {train} has none; they do not belong together")
    predictions = read_predictions(
        path,
        label_names=dataset.label_names,
        ids_follow_names=training is not None,
        separator=reading.get("separator", SEPARATOR),
    )
    if training is None:
        return predictions, dataset.binary().Y, None, None, dataset.label_names
    return predictions, dataset.binary().Y, training.label_counts, training.n_points, dataset.label_names


def _mention_unknown(Y: Any, counts: Any, names: list[str] | None) -> None:
    """Say how many of the test labels have no training points: no prediction can be right about them."""
    import numpy as np

    from longtail.app.console import say

    trained = np.flatnonzero(counts)
    unknown = Y.indices[~np.isin(Y.indices, trained)]
    if not unknown.size:
        return
    share = unknown.size / Y.nnz
    said = f"{100 * share:.1f} % of the test labels ({np.unique(unknown).size:,} different) were not seen in training"
    if share <= MOST_UNKNOWN:
        say(f"{said}, and count as misses")
        return
    example, own = (number if names is None else repr(names[number]) for number in (unknown[0], trained[0]))
    say(f"warning: {said}, e.g. {example}; a label of the training data is {own}: do they belong together?")


def show(title: str, scores: Scores) -> None:
    """Print the metrics, and the bands if there are any."""
    from longtail.app.console import print_table

    ks = [k for k in SHOWN_KS if f"P@{k}" in scores.metrics]
    print_table(
        f"{title} (percent)",
        ["metric", *(f"@{k}" for k in ks)],
        [
            [name, *(f"{scores.metrics[f'{name}@{k}']:.2f}" for k in ks)]
            for name in ROWS
            if f"{name}@1" in scores.metrics
        ],
    )
    if scores.bands is None:
        return
    columns = ("share of test labels", "share of predictions", "recall", "precision", "coverage")
    print_table(
        f"by training frequency, top {scores.k} (percent)",
        ["band", "labels", *columns],
        [
            [band, f"{values['labels']:,.0f}", *(f"{100 * values[column]:.2f}" for column in columns)]
            for band, values in scores.bands.items()
        ],
    )
