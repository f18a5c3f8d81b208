"""What a search says: progress, the table of its front, and its trials as recipes."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from longtail.core.progress import Progress as Display
from longtail.errors import LongtailError
from longtail.tune.candidate import to_toml
from longtail.tune.front import COSTS, OUTCOME, Found, found_in, front, in_words, pick, thinned
from longtail.tune.points import Part
from longtail.tune.search import Plan

COLUMNS = ["", "trial", "model", "parameters", "options"]


class NothingFound(LongtailError):
    """No trial of a search can be used."""


def said_of_split(parts: Sequence[Part], asked: Any) -> str:
    """Return which points are held out, for people."""
    first = parts[0]
    n_points = first.Y.shape[0] + first.Y_dev.shape[0]
    if asked.folds:
        return f"{asked.folds} folds of {n_points:,} points, seed {asked.seed}; no other data is read"
    return (
        f"training on {first.Y.shape[0]:,} points; {first.Y_dev.shape[0]:,} held out at random to score on, seed "
        f"{asked.seed}; no other data is read"
    )


class Progress:
    """Shows trials as they end, the best so far and the time left.

    Parameters
    ----------
    plan : Plan
        What is searched.
    asked : Options
        The number of trials or minutes.
    display : longtail.core.progress.Progress
        Where to show it.
    say : callable
        Prints a line.
    """

    def __init__(self, plan: Plan, asked: Any, display: Display, say: Callable[[str], None]) -> None:
        self._plan, self._asked, self._display, self._say = plan, asked, display, say
        self._found: list[Found] = []
        self._last, self._left = time.monotonic(), 0

    @contextlib.contextmanager
    def running(self, earlier: Sequence[Any]) -> Iterator[None]:
        """Show the search inside the block; trials that exist already count as done."""
        done = [trial for trial in earlier if trial.state.is_finished()]
        self._found = found_in(done, len(self._plan.spaces), self._plan.limits)
        in_seconds = self._asked.trials is None
        total = round(60 * self._asked.minutes) if in_seconds else self._asked.trials
        self._display.start("tuning, seconds" if in_seconds else "tuning, trials", total)
        try:
            self._left = total
            if not in_seconds:
                self._display.advance(len(done))
                self._left = max(total - len(done), 0)
            yield
        finally:
            self._display.finish()

    def after(self, trial: Any) -> None:
        """Show a finished trial."""
        found = found_in([trial], len(self._plan.spaces), self._plan.limits)
        self._found += found
        now = time.monotonic()
        self._say(self._line(trial, found))
        if self._found:
            self._display.note(f"best so far: {self._best()}")
        step = 1 if self._asked.trials is not None else round(now - self._last)
        self._display.advance(min(step, self._left))  # the last trial may take longer than the time that is left
        self._left -= min(step, self._left)
        self._last = now

    def _line(self, trial: Any, found: list[Found]) -> str:
        name = trial.params["model"]
        values = {key.removeprefix(f"{name}."): value for key, value in trial.params.items() if key != "model"}
        default = "defaults" if trial.number < len(self._plan.spaces) else ""
        said = " ".join(filter(None, [name, default, in_words(values)]))
        if found:
            rule = "price" if len(self._plan.objectives) > 1 else self._plan.objectives[0]
            best = pick(found, self._plan.objectives, rule, self._plan.price)
            return f"trial {trial.number}: {said}: {_metrics(best)} {_options(best)}({best.costs['seconds']:.1f} s)"
        if OUTCOME in trial.user_attrs:
            return f"trial {trial.number}: {said}: beyond the limits ({_beyond(trial, self._plan)})"
        if "error" in trial.user_attrs:
            return f"trial {trial.number}: {said}: failed ({trial.user_attrs['error']})"
        return f"trial {trial.number}: {said}: ended early, behind the median"

    def _best(self) -> str:
        rule = "price" if len(self._plan.objectives) > 1 else self._plan.objectives[0]
        best = pick(self._found, self._plan.objectives, rule, self._plan.price)
        return f"{_metrics(best)} (trial {best.trial}, {best.model})"


def no_result(trials: Sequence[Any], plan: Plan, study: Path) -> NothingFound:
    """Return the error for a search without a usable trial."""
    done = [trial for trial in trials if OUTCOME in trial.user_attrs]
    if not done:
        return NothingFound(f"{study}: no trial has ended yet; --resume with more --trials or --minutes")
    return NothingFound(
        f"{study}: none of {len(done)} trials is within the limits (the last: {_beyond(done[-1], plan)}); raise "
        "them, in another study"
    )


def _beyond(trial: Any, plan: Plan) -> str:
    costs = trial.user_attrs[OUTCOME]["costs"]
    return ", ".join(
        f"{costs[name]:.4g} {unit} > {option} {plan.limits[name]:g}"
        for name, (option, unit) in COSTS.items()
        if costs[name] > plan.limits.get(name, math.inf)
    )


def table_rows(found: Sequence[Found], plan: Plan, chosen: Found | None, most: int) -> list[list[str]]:
    """Return the rows of the front, thinned, and of the defaults, marked, for `COLUMNS`, objectives and costs."""
    best = front(found, plan.objectives)
    rows = thinned(best, most, [chosen] if chosen else [])
    rows += [f for f in found if f.default and f not in rows]
    if chosen is not None and chosen not in rows:
        rows.append(chosen)
    return [
        [
            "pick" if f is chosen or f == chosen else "default" if f.default else "",
            str(f.trial), f.model, in_words(f.values), _options(f).strip() or "–",
            *(f"{f.point['metrics'][name]:.2f}" for name in plan.objectives),
            f"{f.costs['seconds']:.1f}", f"{f.costs['model_mb']:.1f}",
        ]
        for f in rows
    ]  # fmt: skip


def recipe_text(chosen: Found, plan: Plan, asked: Any, data: Mapping[str, Any], study: str) -> str:
    """Return the recipe of a point as TOML."""
    heading = f"Trial {chosen.trial} of the study {study}: {_metrics(chosen)} on held-out points."
    return to_toml(_recipe(chosen, plan, asked, data), heading)


def bench_study(found: Sequence[Found], plan: Plan, asked: Any, data: Mapping[str, Any]) -> str:
    """Return all trials as a study of `longtail bench`: one variant per trial, at the price."""
    rule = "price" if len(plan.objectives) > 1 else plan.objectives[0]
    variants = {}
    for number in sorted({f.trial for f in found}):
        best = pick([f for f in found if f.trial == number], plan.objectives, rule, plan.price)
        content = _recipe(best, plan, asked, data)
        own = {"evaluate": {"threshold": best.point["threshold"]}} if "threshold" in best.point else {}
        variants[f"trial-{number:03d}"] = {key: content[key] for key in ("features", "model") if key in content} | own
    base = {"seed": asked.seed, "data": dict(data), "model": {"name": found[0].model.partition("/")[0]}}
    propensity = [asked.propensity.A, asked.propensity.B]
    return to_toml(base | {"evaluate": {"propensity": propensity}, "variants": variants}, "Trials of a search.")


def _recipe(f: Found, plan: Plan, asked: Any, data: Mapping[str, Any]) -> dict[str, Any]:
    return plan.candidate(f.model, f.values).recipe(f.point, data, [asked.propensity.A, asked.propensity.B])


def _metrics(f: Found) -> str:
    return ", ".join(f"{name} {value:.2f}" for name, value in f.point["metrics"].items())


def _options(f: Found) -> str:
    options = {key: value for key, value in f.point.items() if key != "metrics"}
    return f"{in_words(options)} " if options else ""
