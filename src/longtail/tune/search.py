"""The search: ask for parameters, fit, tell what the fit is worth; until there are enough trials or no time is left."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from longtail.core.engine import Engine, Threads
from longtail.errors import EngineError, LongtailError, ParameterError
from longtail.tune.candidate import Candidate
from longtail.tune.curve import told
from longtail.tune.fit import Outcome, fit
from longtail.tune.front import OUTCOME, SCREEN
from longtail.tune.points import Part
from longtail.tune.space import Choice, Space, defaults
from longtail.tune.study import damage_reported

_LEAST_SCREENED = 1000  # training points; with fewer, a share of them says too little about all
_LEAST_EARLIER = 5  # trials before one may be ended early


@dataclass(frozen=True)
class Plan:
    """What is searched and how fits are judged.

    Parameters
    ----------
    spaces : dict of str to Space
        What is searched, per model.
    objectives : list of str
        Metrics, e.g. ["P@1", "PSP@1"].
    price : float, default 1.0
        Points of the first objective that the others may cost.
    fixed : dict of str to dict
        Values that are not searched, per model.
    seed : int, default 0
        Seed of the search and of each training.
    threads : int, optional
        Number of threads of a training.
    screen : float, default 0.125
        Share of the training points that a trial is tried on first; 0 for none.
    limits : dict of str to float
        Largest "seconds", "memory_mb" and "model_mb" of a fit.
    """

    spaces: dict[str, Space]
    objectives: list[str]
    price: float = 1.0
    fixed: dict[str, dict[str, Any]] = field(default_factory=dict)
    seed: int = 0
    threads: int | None = None
    screen: float = 0.125
    limits: dict[str, float] = field(default_factory=dict)

    def first(self) -> list[dict[str, Any]]:
        """Return the parameters of the first trials: the defaults of each model."""
        return [
            {"model": name} | {f"{name}.{key}": value for key, value in defaults(name, space).items()}
            for name, space in self.spaces.items()
        ]

    def candidate(self, model: str, values: dict[str, Any]) -> Candidate:
        return Candidate(model, self.fixed.get(model, {}) | values, self.seed, self.threads)


class Ended(Exception):
    """A trial is not worth finishing."""


@dataclass(eq=False)
class Search:
    """A plan on data, with a journal.

    Parameters
    ----------
    plan : Plan
        What is searched.
    parts : sequence of Part
        One part of the data, or one per fold.
    journal : Journal
        The open study.
    engine : Engine, default Threads()
        Where the parts of a training run.
    """

    plan: Plan
    parts: Sequence[Part]
    journal: Any
    engine: Engine = field(default_factory=Threads)

    def run(self, *, trials: int | None, minutes: float | None, after: Callable[[Any], None]) -> None:
        """Run trials until there are enough of them, or no time is left.

        Parameters
        ----------
        trials : int, optional
            Number of trials in the study, those of earlier and other processes included.
        minutes : float, optional
            Time for this process; the last trial may take longer.
        after : callable
            Called with each finished trial.
        """
        end = None if minutes is None else time.monotonic() + 60 * minutes
        while end is None or time.monotonic() < end:
            trial = self.journal.next_trial(trials)
            if trial is None:
                return
            self._run_one(trial)
            after(self.journal.study.get_trials(deepcopy=False)[trial.number])

    def _run_one(self, trial: Any) -> None:
        from optuna.trial import TrialState

        study = self.journal.study
        model, values = self._drawn(trial)
        candidate = self.plan.candidate(model, values)
        try:
            self._screen(trial, candidate)
            after = lambda n, curve: self._judge(trial, n, curve)  # noqa: E731
            outcome = fit(candidate, self.parts, self.plan.objectives, after=after, engine=self.engine)
        except Ended:
            study.tell(trial, state=TrialState.PRUNED)
        except EngineError:  # the trial is not to blame: a search that is resumed runs it again
            raise
        except LongtailError as error:
            trial.set_user_attr("error", str(error))
            study.tell(trial, state=TrialState.FAIL)
            if trial.number < len(self.plan.spaces):
                raise ParameterError(f"{model} cannot be trained with its default parameters: {error}") from error
        else:
            self._tell(trial, model, values, outcome)

    def _drawn(self, trial: Any) -> tuple[str, dict[str, Any]]:
        """Draw the parameters of a trial; those that a killed process has drawn already stay."""
        from longtail.tune.sampler import MODEL, suggest

        with damage_reported(self.journal.path):
            model = suggest(trial, MODEL, Choice(tuple(self.plan.spaces)))
            space = self.plan.spaces[model]
            return model, {key: suggest(trial, f"{model}.{key}", values) for key, values in space.items()}

    def _tell(self, trial: Any, model: str, values: dict[str, Any], outcome: Outcome) -> None:
        costs = outcome.costs()
        trial.set_user_attr(OUTCOME, {"model": model, "values": values, "curve": outcome.curve, "costs": costs})
        for name, limit in self.plan.limits.items():
            if name not in trial.constraints:
                trial.set_constraint(name, costs[name] - limit)
        self.journal.study.tell(trial, told(outcome.curve, self.plan.objectives, self.plan.price))

    def _screen(self, trial: Any, candidate: Candidate) -> None:
        """Train on a share of the points first; raise Ended if that is behind what earlier trials had there."""
        part, share = self.parts[0], self.plan.screen
        if share * part.Y.shape[0] < _LEAST_SCREENED:
            return
        try:
            few = [part.screen(share, self.plan.seed)]
            curve = fit(candidate, few, self.plan.objectives, engine=self.engine).curve
        except LongtailError:  # too few points for these parameters; all of them may be enough
            return
        self._judge(trial, 0, curve)

    def _judge(self, trial: Any, step: int, curve: list[Any]) -> None:
        """Compare what a trial has so far with earlier trials at the same step; raise Ended if it is behind."""
        values = told(curve, self.plan.objectives, self.plan.price)
        seen = trial.user_attrs.get(SCREEN, {}) | {str(step): values}
        trial.set_user_attr(SCREEN, seen)
        if len(values) == 1:
            study = self.journal.study
            if step not in study.get_trials(deepcopy=False)[trial.number].intermediate_values:
                trial.report(values[0], step)
            behind = trial.should_prune()
        else:
            behind = _behind_median(values, self._earlier(trial, step))
        if behind and trial.number >= len(self.plan.spaces):
            raise Ended

    def _earlier(self, trial: Any, step: int) -> list[list[float]]:
        """Return what trials with lower numbers had at this step."""
        earlier = self.journal.study.get_trials(deepcopy=False)[: trial.number]
        return [seen[str(step)] for t in earlier if str(step) in (seen := t.user_attrs.get(SCREEN, {}))]


def _behind_median(values: Sequence[float], earlier: Sequence[Sequence[float]]) -> bool:
    """Return whether every objective is below its median among earlier trials."""
    if len(earlier) < _LEAST_EARLIER:
        return False
    return bool((np.asarray(values) < np.median(np.asarray(earlier), axis=0)).all())


def open_search(path: Path, plan: Plan, parts: Sequence[Part], identity: dict[str, Any]) -> Any:
    """Open the study file of a search; see `study.opened`, whose context manager this returns."""
    from longtail.tune.study import opened, require_optuna

    require_optuna()
    from optuna.pruners import MedianPruner

    from longtail.tune.sampler import SamplerOfTrials

    pruner = MedianPruner(n_startup_trials=_LEAST_EARLIER)
    sampler = SamplerOfTrials(plan.seed, plan.first())
    return opened(path, identity, sampler=sampler, pruner=pruner, objectives=plan.objectives)
