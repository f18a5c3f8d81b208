"""Fit a candidate on the parts of a search, and measure what it reaches and costs."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

from longtail.bench import memory
from longtail.core.engine import Engine, Threads
from longtail.core.run import Run
from longtail.core.store import size_in_bytes
from longtail.core.unfinished import temporary_folder
from longtail.tune.candidate import Candidate
from longtail.tune.curve import SWEPT, Point, curve_of, mean_curve
from longtail.tune.points import Part


@dataclass(frozen=True)
class Outcome:
    """What a fit reached and cost: the curve, seconds of training, peak memory and size of the model in MB."""

    curve: list[Point]
    seconds: float
    memory_mb: float
    model_mb: float

    def costs(self) -> dict[str, float]:
        return {"seconds": self.seconds, "memory_mb": self.memory_mb, "model_mb": self.model_mb}


def fit(
    candidate: Candidate,
    parts: Sequence[Part],
    objectives: Sequence[str],
    *,
    swept: Collection[str] = SWEPT,
    after: Callable[[int, list[Point]], None] = lambda number, curve: None,
    engine: Engine | None = None,
) -> Outcome:
    """Train on each part and return the mean of the curves and the largest costs.

    Parameters
    ----------
    candidate : Candidate
        What to train.
    parts : sequence of Part
        One, or one per fold.
    objectives : sequence of str
        Metrics of the curves.
    swept : collection of str, default ("beam", "exponent")
        Options that are swept on the predictions, unless the candidate sets them.
    after : callable, optional
        Called after each part but the last with the number of parts so far and the mean curve; it may raise to end.
    engine : Engine, optional
        Where the parts of a training run; threads by default.

    Returns
    -------
    Outcome
    """
    curves: list[list[Point]] = []
    costs: list[tuple[float, float, float]] = []
    for number, part in enumerate(parts, 1):
        train, dev = part.inputs(scaled=candidate.unit_rows)
        with contextlib.suppress(OSError):  # only Linux forgets an earlier peak; elsewhere it is that of the process
            memory.reset_peak()
        model = candidate.estimator()
        started = time.perf_counter()
        model.fit(train, part.Y, label_names=part.label_names, run=Run(engine=engine or Threads()))
        costs.append((time.perf_counter() - started, memory.peak() / 1e6, _megabytes(model)))
        curves.append(curve_of(model, dev, part, objectives, set(swept) - set(candidate.own_names())))
        if number < len(parts):
            after(number, mean_curve(curves, [p.Y_dev.shape[0] for p in parts[:number]]))
    sizes = [part.Y_dev.shape[0] for part in parts]
    return Outcome(mean_curve(curves, sizes), *(max(column) for column in zip(*costs, strict=True)))


def _megabytes(model: Any) -> float:
    with temporary_folder() as folder:
        model.save(folder / "model")
        return size_in_bytes(folder / "model") / 1e6
