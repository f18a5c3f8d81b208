"""From options to a plan: every mistake is found here, before a study file is touched."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from longtail.bench.recipe import text_features
from longtail.bench.split import check_share
from longtail.core import registry
from longtail.core.fingerprint import data_fingerprint, fingerprint
from longtail.data import Dataset
from longtail.errors import DataError, ParameterError
from longtail.features.text import TextFeatures
from longtail.objectives import PropensityModel
from longtail.tune.front import COSTS
from longtail.tune.objectives import spelt
from longtail.tune.points import Part, check_points, check_tail, prepared_parts, splits_of
from longtail.tune.search import Plan
from longtail.tune.space import UNIT_ROWS, Space, restricted, space_of
from longtail.workflow.build import build_estimator

DEV_SHARE = 0.2


@dataclasses.dataclass(frozen=True)
class Options:
    """What a user asked for; see `longtail tune --help`."""

    models: list[str]
    objectives: list[str]
    price: float | None = None
    trials: int | None = None
    minutes: float | None = None
    fixed: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    held_out: float | None = None
    folds: int | None = None
    seed: int = 0
    threads: int | None = None
    screen: float = 0.125
    limits: Mapping[str, float | None] = dataclasses.field(default_factory=dict)
    propensity: PropensityModel = dataclasses.field(default_factory=PropensityModel)

    def checked(self) -> Options:
        """Return the options with names as metrics spell them, or raise ParameterError for one that cannot be."""
        objectives = [spelt(name) for name in self.objectives]
        for what, names in (("objective", objectives), ("model", self.models)):
            twice = {name for name in names if names.count(name) > 1}
            if twice or not names:
                raise ParameterError(f"{what} {min(twice)} is given twice" if twice else f"give at least one {what}")
        for name in self.models:
            registry.estimator_class(name.partition("/")[0])
        self._check_budget()
        self._check_limits()
        if self.price is not None and len(objectives) == 1:
            raise ParameterError(
                f"--price says how much {objectives[0]} the other objectives may cost; there is no other"
            )
        if self.price is not None and not self.price >= 0:
            raise ParameterError(f"--price is {self.price:g}, but must be 0 or more")
        if self.folds is not None and self.held_out is not None:
            raise ParameterError("--folds and --dev contradict each other: give one of them")
        if self.folds is not None and self.folds < 2:
            raise ParameterError(f"--folds is {self.folds}, but must be 2 or more")
        if self.held_out is not None:
            check_share(self.held_out, "--dev")
        if self.screen:
            check_share(self.screen, "--screen")
        return dataclasses.replace(self, objectives=objectives)

    def _check_budget(self) -> None:
        if (self.trials is None) == (self.minutes is None):
            said = "contradict each other: give one of them" if self.trials else "are both missing: give one of them"
            raise ParameterError(f"--trials and --minutes {said}")
        if self.trials is not None and self.trials < len(self.models):
            raise ParameterError(
                f"--trials is {self.trials}, but must be at least {len(self.models)}: the defaults of every model are "
                "tried first"
            )
        if self.minutes is not None and not self.minutes > 0:
            raise ParameterError(f"--minutes is {self.minutes:g}, but must be above 0")

    def _check_limits(self) -> None:
        for name, limit in self.limits.items():
            if limit is not None and not limit > 0:
                raise ParameterError(f"{COSTS[name][0]} is {limit:g}, but must be above 0")
        seconds = self.limits.get("seconds")
        if seconds is not None and self.minutes is not None and seconds > 60 * self.minutes:
            raise ParameterError(
                f"--max-seconds {seconds:g} and --minutes {self.minutes:g} contradict each other: one training may not "
                "take longer than the whole search"
            )


def plan_of(options: Options, *, text: bool) -> Plan:
    """Return what is searched for a kind of data.

    Parameters
    ----------
    options : Options
        Checked options.
    text : bool
        The data is texts.

    Returns
    -------
    Plan

    Raises
    ------
    ParameterError
        If a model has no search space, a fixed parameter does not exist, or nothing is left to search.
    """
    spaces = {name: space_of(name, text=text) for name in options.models}
    features = {key: value for key, value in options.fixed.items() if key.startswith("features.")}
    own = {key: value for key, value in options.fixed.items() if key not in features}
    _check_features(features, text=text)
    fixed = {name: _fixed(name, own) | features for name in spaces}
    for key in own:
        if not any(key in values or f"base.{key}" in values for values in fixed.values()):
            raise ParameterError(_no_such(key, options.models))
    left: dict[str, Space] = {name: restricted(space, fixed[name]) for name, space in spaces.items()}
    if len(left) == 1 and not any(left.values()):
        raise ParameterError(f"--fix leaves nothing of {options.models[0]} to search")
    limits = {name: limit for name, limit in options.limits.items() if limit is not None}
    plan = Plan(
        left, list(options.objectives), 1.0 if options.price is None else options.price, fixed, options.seed,
        options.threads, options.screen, limits,
    )  # fmt: skip
    for name in left:  # values that do not fit are errors now
        plan.candidate(name, {}).estimator().check_parameters()
    return plan


def _fixed(model: str, own: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fixed values that a model has, by the names of its own parameters."""
    name, _, base = model.partition("/")
    estimator = build_estimator(name, base=base or None)
    known = _parameters(estimator)
    named = {key: key if key in known else f"base.{key}" for key in own}
    return {
        found: "none" if own[key] is None and found.endswith("weighting") else own[key]
        for key, found in named.items()
        if found in known
    }


def _parameters(estimator: Any) -> set[str]:
    """Return the names that --fix takes."""
    names = {key.replace("__", ".") for key in estimator.get_params()}
    return names | {f"{name}.strength" for name in names if name.split(".")[-1] == "weighting"}


def _no_such(key: str, models: Sequence[str]) -> str:
    known: set[str] = set()
    for model in models:
        name, _, base = model.partition("/")
        known |= _parameters(build_estimator(name, base=base or None))
    return f"--fix: {registry.unknown('parameter', key, known)}"


def _check_features(features: Mapping[str, Any], *, text: bool) -> None:
    names = {key.removeprefix("features."): value for key, value in features.items()}
    known = TextFeatures().get_params() if text else [UNIT_ROWS.removeprefix("features.")]
    for name in names:
        if name not in known:
            raise ParameterError(f"--fix: {registry.unknown('setting of features', name, known)}")
    if text:
        text_features(names).check_parameters()


def parts_of(data: Dataset, options: Options, plan: Plan, path: Path) -> list[Part]:
    """Return the data of the search, or raise DataError if it cannot be searched on."""
    check_points(data, path)
    kinds = {plan.candidate(name, {}).estimator().input_kind for name in plan.spaces}
    if len(kinds) > 1:
        raise ParameterError("models that read texts and models that read features cannot be tuned together")
    reads_texts = kinds == {"text"}
    if reads_texts and data.texts is None:
        raise DataError(f"{options.models[0]} needs texts, but this dataset has only features", path=path)
    features = {key.removeprefix("features."): v for key, v in options.fixed.items() if key.startswith("features.")}
    splits = splits_of(data.n_points, options.held_out or DEV_SHARE, options.folds, options.seed)
    check_tail(data, splits, options.objectives, path)
    return list(prepared_parts(data, splits, reads_texts=reads_texts, features=features, propensity=options.propensity))


def identity_of(data: Dataset, options: Options, plan: Plan) -> dict[str, Any]:
    """Return what trials must agree on to be compared, as JSON."""
    inputs = data.texts if data.X is None else data.X
    names = fingerprint_of_names(data.label_names)
    return {
        "data": f"{data_fingerprint(inputs, data.Y)}-{names}",
        "models": options.models,
        "objectives": plan.objectives,
        "price": plan.price,
        "fixed": dict(options.fixed),
        "held_out": None if options.folds else options.held_out or DEV_SHARE,
        "folds": options.folds,
        "seed": plan.seed,
        "screen": plan.screen,
        "limits": plan.limits,
        "propensity": [options.propensity.A, options.propensity.B],
        "spaces": {
            model: {key: [type(values).__name__, *dataclasses.astuple(values)] for key, values in space.items()}
            for model, space in plan.spaces.items()
        },
    }


def fingerprint_of_names(names: Sequence[str] | None) -> str:
    """Return a digest of label names; labels may change their names while points stay."""
    import numpy as np

    return fingerprint(np.frombuffer("\0".join(names or []).encode("utf-8", "surrogatepass"), dtype=np.uint8))
