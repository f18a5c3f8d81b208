"""Which parameters a trial gets: those of a multivariate TPE, drawn by a seed of the trial's own number.

A sampler usually draws all trials from one stream of random numbers, so a search that is killed and continued goes on
elsewhere in the stream. Here every draw starts from (seed, trial number, parameter), and otherwise depends only on the
trials before it. A killed search that is continued, even one killed halfway through drawing a trial, therefore makes
the same trials as one that was never killed.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Sequence
from typing import Any

import optuna
from optuna.distributions import BaseDistribution
from optuna.samplers import BaseSampler, TPESampler

from longtail.tune.space import Choice, Range, Real

MODEL = "model"
_STARTUP = 8  # trials at random before TPE has something to learn from


class SamplerOfTrials(BaseSampler):  # type: ignore[misc]
    """Multivariate TPE with one seed per trial; the first trials are given.

    Parameters
    ----------
    seed : int
        Seed of the search.
    first : sequence of dict
        Parameters of the first trials: the defaults of each model.
    """

    def __init__(self, seed: int, first: Sequence[dict[str, Any]]) -> None:
        self._seed, self._first = seed, first

    def infer_relative_search_space(self, study: Any, trial: Any) -> dict[str, BaseDistribution]:
        if trial.number < len(self._first):
            return {}
        self._joint = self._tpe(trial.number)
        return dict(self._joint.infer_relative_search_space(study, trial))

    def sample_relative(self, study: Any, trial: Any, search_space: dict[str, BaseDistribution]) -> dict[str, Any]:
        if trial.number < len(self._first):
            return {}
        return dict(self._joint.sample_relative(study, trial, search_space))

    def sample_independent(self, study: Any, trial: Any, param_name: str, param_distribution: BaseDistribution) -> Any:
        if trial.number < len(self._first):
            return self._first[trial.number][param_name]
        return self._tpe(trial.number, param_name).sample_independent(study, trial, param_name, param_distribution)

    def _tpe(self, number: int, name: str = "") -> TPESampler:
        digest = hashlib.sha256(f"{self._seed}/{number}/{name}".encode()).digest()
        with warnings.catch_warnings():
            # `group`: parameters that only one model has are drawn together; experimental since 2020.
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            return TPESampler(
                multivariate=True, group=True, n_startup_trials=_STARTUP, seed=int.from_bytes(digest[:4], "little")
            )


def suggest(trial: Any, name: str, values: Range) -> Any:
    """Return the value of a parameter in a trial, drawn if it has none."""
    if isinstance(values, Choice):
        return trial.suggest_categorical(name, values.values)
    if isinstance(values, Real):
        return trial.suggest_float(name, values.low, values.high, log=values.log)
    return trial.suggest_int(name, values.low, values.high, log=values.log)
