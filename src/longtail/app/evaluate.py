"""longtail evaluate: compare a model or a file of predictions with the true labels."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from longtail.app import options
from longtail.app.reading import data_name, reads_data
from longtail.core.urls import path_or_url

if TYPE_CHECKING:
    from longtail.workflow.score import Scores

ROWS = ("P", "nDCG", "PSP", "PSnDCG", "R", "macro-F1", "coverage")
SHOWN_KS = (1, 3, 5)
MEANS = ("micro", "macro", "example")
LabelsOut = Annotated[Path | None, typer.Option(metavar="FILE", help="Write one row per label: .csv or .parquet.")]
Sets = Annotated[
    bool, typer.Option("--sets", help="Micro, macro and example F1 of the label sets in a predictions FILE, too.")
]
Keep = Annotated[bool, typer.Option("--keep", help="Keep the figures beside the MODEL; longtail info shows them.")]
MOST_UNKNOWN = 0.1  # share of the test labels that training may lack before this looks like a mistake
Train = Annotated[
    Path | None,
    typer.Option(
        metavar="DATA", help="Training data; a predictions FILE needs it for PSP and the bands.", parser=path_or_url
    ),
]


@reads_data
def evaluate(
    subject: options.Subject,
    data: options.Data,
    train: Train = None,
    propensity: options.Propensity = "default",
    exponent: options.Exponent = None,
    against: options.Against = None,
    labels_out: LabelsOut = None,
    sets: Sets = False,
    keep: Keep = False,
    overwrite: options.Overwrite = False,
    as_json: options.AsJson = False,
    *,
    reading: dict[str, Any],
) -> None:
    """Evaluate a model or predictions: P, nDCG, PSP, recall, macro-F1, coverage; head, torso and tail labels.

    PSP, PSnDCG and the frequency bands need the label counts of the training data.
    A model contains them; for a predictions file give --train.
    True labels that the model does not know count as misses.
    """
    import numpy as np

    from longtail.app.console import print_json, say
    from longtail.app.subject import is_model, load_other, load_subject
    from longtail.errors import ParameterError
    from longtail.metrics import evaluate_sets
    from longtail.workflow.build import parse_propensity
    from longtail.workflow.compare import differences
    from longtail.workflow.label_files import check_label_file, label_columns, write_label_table
    from longtail.workflow.score import KS, matched, score_predictions

    chosen = parse_propensity(propensity)
    if keep:
        _check_kept(subject)
    if sets and is_model(subject):
        raise ParameterError(
            f"--sets needs a predictions file, but {subject} is a model; "
            "write its sets with longtail predict --budget, --recall, --optimise, or --probabilities --threshold"
        )
    if labels_out is not None:
        options.check_apart(labels_out, subject, data, train, *(against or []))
        check_label_file(labels_out, overwrite=overwrite)
    found = load_subject(subject, data, train, reading, k=KS[-1], exponent=exponent)
    others = {str(path): load_other(path, found, reading, k=KS[-1]) for path in against or []}
    known = {"training_counts": found.counts, "n_training_points": found.n_points, "propensity": chosen}
    if not np.isin(found.predictions.labels, found.Y.indices).any():
        say(f"warning: none of the predicted labels occurs in {data}; do they belong together?")
    if found.counts is not None:
        mention_unknown(found.Y, found.counts, found.data.label_names)
    scores = score_predictions(found.predictions, found.Y, **known)
    if found.counts is None:
        say("PSP, PSnDCG and the bands are left out: they need the training data's label counts (give --train DATA)")
        say("macro-F1 is a mean over the labels in the two files; with --train, over all labels, as for a model")
    own = matched(found.predictions, found.Y, **known)
    compared = {path: differences(own, matched(other, found.Y, **known)) for path, other in others.items()}
    of_sets = evaluate_sets(found.predictions, found.Y) if sets else None
    if labels_out is not None:
        columns = label_columns(own, scores.k, found.counts, found.data.label_names, found.shown_names())
        write_label_table(columns, labels_out, overwrite=overwrite)
        say(f"wrote {len(columns['label']):,} labels to {labels_out}")
    if as_json:
        shown = {path: {name: d._asdict() for name, d in found.items()} for path, found in compared.items()}
        more = ({"against": shown} if shown else {}) | ({"sets": of_sets} if of_sets else {})
        print_json({**scores.metrics, **more})
    else:
        show(f"{subject} on {data}", scores)
        for path, found_differences in compared.items():
            _show_differences(f"{subject} against {path}", scores.metrics, found_differences)
        if of_sets is not None:
            _show_sets(f"{subject} as sets", of_sets)
    if keep:
        _keep(subject, data, found.Y.shape[0], scores, propensity, exponent)


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


def _show_sets(title: str, found: dict[str, float]) -> None:
    from longtail.app.console import print_table

    print_table(
        f"{title} of {found['labels per point']:.2f} labels on average (percent)",
        ["mean", "P", "R", "F1"],
        [[mean, *(f"{found[f'{mean}-{letter}']:.2f}" for letter in ("P", "R", "F1"))] for mean in MEANS],
    )


def _show_differences(title: str, metrics: dict[str, float], found: dict[str, Any]) -> None:
    from longtail.app.console import print_table
    from longtail.workflow.compare import beyond_chance

    print_table(
        f"{title} (percentage points, over the same points; macro-F1 and coverage over labels)",
        ["metric", "here", "there", "difference", "95 % interval", "beyond chance"],
        [
            [
                name, f"{metrics[name]:.2f}", f"{metrics[name] - d.value:.2f}", f"{d.value:+.2f}",
                f"{d.low:+.2f} to {d.high:+.2f}", "yes" if beyond_chance(d) else "no",
            ]
            for name, d in found.items()
        ],
    )  # fmt: skip


def mention_unknown(Y: Any, counts: Any, names: list[str] | None) -> None:
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
