"""Fit a model and save it: here, as one of several shards, from finished shards, or on Ray."""

from __future__ import annotations

import time
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from longtail.core.urls import path_or_url

Shard = Annotated[
    str | None,
    typer.Option(metavar="I/N", help="Train the I-th of N shares into MODEL.shard-I-of-N; --merge joins them."),
]
Merge = Annotated[bool, typer.Option("--merge", help="Make the model of the shards beside it (MODEL.shard-I-of-N).")]
Workspace = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR", help="Keep working copies of large data in files there, on a local disk.", parser=path_or_url
    ),
]
Ray = Annotated[str | None, typer.Option(metavar="auto|HOST:PORT", help="Work on a Ray cluster (extra 'distributed').")]


@dataclass(frozen=True)
class Place:
    """Where a training runs: in threads by default, as a shard, from all shards, or on Ray.

    Parameters
    ----------
    shard : str, optional
        Which share to train, e.g. "3/16".
    merge : bool, default False
        Whether to put finished shards together.
    ray : str, optional
        Address of a Ray cluster.
    """

    shard: str | None = None
    merge: bool = False
    ray: str | None = None

    @property
    def options(self) -> list[str]:
        """The options that were given."""
        given = {"--shard": self.shard is not None, "--merge": self.merge, "--ray": self.ray is not None}
        return [option for option, is_given in given.items() if is_given]

    def check(self, out: Path) -> None:
        """Raise an error for options that exclude each other, shards that cannot be put together, no Ray cluster."""
        from longtail.errors import ParameterError

        if len(self.options) > 1:
            raise ParameterError(f"{' and '.join(self.options)} exclude each other; give one of them")
        self.shards(out)
        with self.engine():  # a wrong address, too, is said before the data is read
            pass

    def check_model(self, estimator: Any) -> None:
        """Raise ParameterError if a model does not train in parts."""
        from longtail.errors import ParameterError

        if self.options and not estimator.trains_in_parts:
            model = getattr(estimator, "model", None) or estimator  # that on the features of texts
            raise ParameterError(
                f"{self.options[0]} is for models that train in independent parts, such as dismec, bonsai, parabel and "
                f"fastxml, and for wrappers of these; {type(model).__name__} is not one"
            )

    def shards(self, out: Path) -> list[Path]:
        """Return the folders to put together, if that is what to do."""
        from longtail.engine.shards import finished_shards

        return finished_shards(out) if self.merge else []

    def engine(self) -> AbstractContextManager[Any]:
        """Return the engine, as a context."""
        from longtail.core.engine import Threads
        from longtail.engine.shards import Shards

        if self.ray is not None:
            from longtail.engine.ray import RayEngine

            return RayEngine(self.ray)
        return nullcontext(Threads() if self.shard is None else Shards.parse(self.shard))


def fit_and_save(
    estimator: Any,
    dataset: Any,
    out: Path,
    calibrate: str = "no",
    *,
    name: str,
    resume: bool,
    overwrite: bool,
    place: Place | None = None,
    workspace: Path | None = None,
) -> None:
    """Fit a model, keep finished parts in OUT.partial meanwhile, and save it; of a shard, only keep its parts."""
    from longtail.app.console import compiling_announced, progress, say
    from longtail.core.checkpoint import Checkpoint
    from longtail.core.processes import helps_another_process
    from longtail.core.progress import Silent
    from longtail.core.run import Run
    from longtail.core.workspace import Workspace
    from longtail.engine.shards import PartsKept, Shards, remove_shards, warn_of_lost_parts
    from longtail.workflow.calibrate import calibrate_after_training

    place = place or Place()
    first = not helps_another_process()
    started = time.perf_counter()
    with ExitStack() as stack:
        engine = stack.enter_context(place.engine())
        shards = place.shards(out)
        warn_of_lost_parts(shards)
        partial = engine.folder(out) if isinstance(engine, Shards) else out.with_name(f"{out.name}.partial")
        if first and resume and not partial.exists():
            say(f"nothing to resume in {partial}; starting from the beginning")
        checkpoint = Checkpoint(partial, resume=resume, sources=shards)
        try:
            inputs = dataset.texts if estimator.input_kind == "text" else dataset.X
            run = Run(progress() if first else Silent(), checkpoint, engine, Workspace(workspace))
            more = {} if dataset.weights is None else {"sample_weight": dataset.weights}
            with compiling_announced() if first else nullcontext():
                estimator.fit(inputs, dataset.Y, label_names=dataset.label_names, run=run, **more)
                done = calibrate_after_training(estimator, inputs, dataset.Y, calibrate, run, **more)
            if first:
                estimator.training_ = {"data": name, **estimator.training_}
                estimator.save(out, overwrite=overwrite)
        except PartsKept:
            engine.finish(out)
            say(
                f"trained shard {engine.number} of {engine.count}: {engine.n_own:,} of {engine.n_parts:,} parts in "
                f"{time.perf_counter() - started:.1f} s, kept in {partial}; the same command with --merge makes the "
                "model of all shards"
            )
            return
        except BaseException as error:
            _keep_or_clear(checkpoint, error, resume=resume)
            raise
    checkpoint.clear()
    remove_shards(shards)
    if first:
        _say_what_was_done(estimator, dataset, out, time.perf_counter() - started, done)


def _say_what_was_done(estimator: Any, dataset: Any, out: Path, seconds: float, calibrated: str | None) -> None:
    from longtail.app.console import say
    from longtail.core.store import size_in_bytes
    from longtail.features.pipeline import model_behind

    kind = type(model_behind(estimator)).__name__
    say(
        f"trained {kind} on {dataset.n_points:,} points with {dataset.n_labels:,} labels "
        f"in {seconds:.1f} s; wrote {out} ({size_in_bytes(out) / 1e6:.1f} MB)"
    )
    if calibrated is not None:
        say(f"probabilities: {calibrated}")
    for line in getattr(model_behind(estimator), "report_", []):
        say(line)


def _keep_or_clear(checkpoint: Any, error: BaseException, *, resume: bool) -> None:
    """Decide what an error leaves of an unfinished training, and say where it is.

    With wrong data or parameters nothing is worth keeping. Whatever else ends a training (Ctrl-C, SIGTERM, a full disk,
    too little memory, a loss that is not finite) must not cost the finished parts, just as a kill does not.
    """
    from longtail.app.console import say
    from longtail.errors import DataError, ModelError, ParameterError

    stopped = isinstance(error, KeyboardInterrupt)  # by Ctrl-C, SIGTERM or SIGHUP
    wrong = isinstance(error, (DataError, ModelError, ParameterError))
    if not resume and (wrong or not checkpoint.holds_parts()):
        checkpoint.clear()
        if stopped:
            say("interrupted; no part was finished, and nothing was kept")
    elif checkpoint.holds_parts():
        say(
            f"{'interrupted; ' * stopped}finished parts are kept in {checkpoint.folder}: "
            "the same command with --resume continues from there; to discard them, delete that folder"
        )
