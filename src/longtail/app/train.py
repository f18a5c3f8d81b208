"""longtail train: train a model by name and save it as a directory."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import typer

from longtail.app import options

_ROWS_LOOKED_AT = 10_000


def train(
    data: options.Data,
    model: Annotated[
        str,
        typer.Option("--model", "-m", metavar="NAME", help="Model, e.g. dismec; longtail --list-models prints all."),
    ],
    out: Annotated[Path, typer.Option("--out", "-o", metavar="MODEL", help="Directory to write the model to.")],
    base: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Model inside a wrapper, e.g. bonsai, or dismec,bonsai for ensemble."),
    ] = None,
    weighting: Annotated[
        str | None, typer.Option(metavar="W", help="Weighting of the loss: pw, pw-cb or unbiased; default: none.")
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="KEY=VALUE", help="Parameter of the model, e.g. C=0.5 or features.min_df=2; repeatable."
        ),
    ] = None,
    unit_rows: Annotated[
        bool, typer.Option("--unit-rows", help="Scale rows of features to length 1, in training and in prediction.")
    ] = False,
    threads: Annotated[int | None, typer.Option(metavar="N", help="Number of threads; default: all cores.")] = None,
    seed: Annotated[int | None, typer.Option(metavar="S", min=0, help="Seed of all random numbers.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue an unfinished run (MODEL.partial).")] = False,
    overwrite: options.Overwrite = False,
    text_field: options.TextField = "text",
    labels_field: options.LabelsField = "labels",
    separator: options.Separator = options.SEPARATOR,
) -> None:
    """Train a model and write it to a directory.

    Texts become TF-IDF features, which are part of the model, unless it reads texts itself.
    While it runs, finished parts are kept in MODEL.partial; --resume continues a killed run.
    """
    from longtail.core.model import KIND
    from longtail.core.processes import helps_another_process
    from longtail.core.store import check_free
    from longtail.errors import DataError, ParameterError
    from longtail.workflow.build import build_estimator, parse_settings

    options.check_threads(threads)
    check_free(out, kind=KIND, overwrite=overwrite)

    def build(text: bool) -> Any:
        estimator = build_estimator(
            model, text=text, unit_rows=unit_rows and not text, base=base, weighting=weighting, settings=values,
            threads=threads, seed=seed,
        )  # fmt: skip
        estimator.check_parameters()
        return estimator

    values = parse_settings(settings or [])
    try:
        build(text=True)  # report a wrong name or value before reading a large file
    except ParameterError as error:
        try:
            build(text=False)  # a name may fit only one kind of data
        except ParameterError:
            raise error from None
    dataset = options.read(data, text_field=text_field, labels_field=labels_field, separator=separator)
    if unit_rows and dataset.X is None:
        raise DataError("--unit-rows is for features, but this dataset has only texts", path=data)
    estimator = build(text=dataset.X is None)
    if estimator.input_kind == "text" and dataset.texts is None:
        raise DataError(f"{model} needs texts, but this dataset has only features", path=data)
    if estimator.input_kind == "features" and not helps_another_process():
        _mention_lengths(estimator, dataset.X)
    _fit_and_save(estimator, dataset, out, resume=resume, overwrite=overwrite)


def _mention_lengths(estimator: Any, X: Any) -> None:
    """Tell the user if the lengths of rows are not what models expect; features are used as they are."""
    import numpy as np

    from longtail.app.console import say
    from longtail.core.popularity import Popularity
    from longtail.features import UnitRows
    from longtail.features.scaling import row_lengths

    parts = [estimator, *estimator.get_params().values()]
    if isinstance(estimator, Popularity) or any(isinstance(part, UnitRows) for part in parts):
        return
    lengths = row_lengths(X[:: max(X.shape[0] // _ROWS_LOOKED_AT, 1)])
    lengths = lengths[lengths > 0]
    usual = float(np.median(lengths)) if lengths.size else 1.0
    if not 0.5 <= usual <= 2:
        say(
            f"note: rows of features have lengths around {usual:.3g}, but most models expect 1; --unit-rows scales them"
        )


def _fit_and_save(estimator: Any, dataset: Any, out: Path, *, resume: bool, overwrite: bool) -> None:
    from longtail.app.console import progress, say
    from longtail.core.checkpoint import Checkpoint
    from longtail.core.processes import helps_another_process
    from longtail.core.progress import Silent
    from longtail.core.run import Run
    from longtail.core.store import size_in_bytes
    from longtail.features.pipeline import model_behind

    first = not helps_another_process()
    partial = out.with_name(f"{out.name}.partial")
    checkpoint = Checkpoint(partial, resume=resume)
    started = time.perf_counter()
    try:
        inputs = dataset.texts if estimator.input_kind == "text" else dataset.X
        run = Run(progress() if first else Silent(), checkpoint)
        estimator.fit(inputs, dataset.Y, label_names=dataset.label_names, run=run)
        if first:
            estimator.save(out, overwrite=overwrite)
    except BaseException as error:
        _keep_or_clear(checkpoint, error, resume=resume)
        raise
    checkpoint.clear()
    if not first:
        return
    seconds = time.perf_counter() - started
    name = type(model_behind(estimator)).__name__
    say(
        f"trained {name} on {dataset.n_points:,} points with {dataset.n_labels:,} labels "
        f"in {seconds:.1f} s; wrote {out} ({size_in_bytes(out) / 1e6:.1f} MB)"
    )


def _keep_or_clear(checkpoint: Any, error: BaseException, *, resume: bool) -> None:
    """Decide what an error leaves of an unfinished training, and say where it is.

    A killed process does not get here and leaves its parts. A user who interrupts wants nothing left, and with wrong
    data or parameters nothing is worth keeping. Any other error (a full disk, too little memory, a loss that is not
    finite) and a system that stops the process (SIGTERM, SIGHUP) must not cost the finished parts.
    """
    from longtail.app.console import say
    from longtail.app.streams import Stopped
    from longtail.errors import DataError, ModelError, ParameterError

    stopped = isinstance(error, Stopped)
    interrupted = isinstance(error, KeyboardInterrupt) and not stopped
    if not resume and (interrupted or isinstance(error, (DataError, ModelError, ParameterError))):
        checkpoint.clear()
        if interrupted:
            say("interrupted; nothing was kept (use --resume to keep finished parts)")
    elif checkpoint.holds_parts():
        say(f"{'interrupted; ' * interrupted}finished parts are kept in {checkpoint.folder}; continue with --resume")
    else:
        if not resume:
            checkpoint.clear()
        if stopped:
            say("no part of the training was finished, so nothing was kept")
