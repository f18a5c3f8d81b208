"""What a search found: every point of every curve, those that none beats, and which one to take."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from longtail.errors import ParameterError
from longtail.tune.curve import THRESHOLD, at_price
from longtail.tune.objectives import goodness
from longtail.tune.space import weighting_of

OUTCOME, SCREEN = "outcome", "screen"  # attributes of a trial
# What a fit costs, with the option that limits it and its unit.
COSTS = {"seconds": ("--max-seconds", "s"), "memory_mb": ("--max-memory", "MB"), "model_mb": ("--max-size", "MB")}


@dataclass(frozen=True)
class Found:
    """One point of the curve of one trial.

    Parameters
    ----------
    trial : int
        Number of the trial.
    model : str
        Name of the model.
    values : dict
        Its parameters that were searched.
    point : dict
        Metrics and options, see `curve_of`.
    costs : dict
        Seconds, memory and size.
    default : bool
        The parameters are the defaults.
    """

    trial: int
    model: str
    values: dict[str, Any]
    point: dict[str, Any]
    costs: dict[str, float]
    default: bool


def found_in(trials: Iterable[Any], n_defaults: int, limits: Mapping[str, float]) -> list[Found]:
    """Return the points of all finished trials that are within the limits."""
    found = []
    for trial in trials:
        outcome = trial.user_attrs.get(OUTCOME)
        if outcome is None or any(outcome["costs"][name] > limit for name, limit in limits.items()):
            continue
        for point in outcome["curve"]:
            default = trial.number < n_defaults and _is_default(point)
            found.append(Found(trial.number, outcome["model"], outcome["values"], point, outcome["costs"], default))
    return found


def _is_default(point: Mapping[str, Any]) -> bool:
    """Return whether a point has the options that a model has by itself."""
    usual = {"exponent": 0.0, "beam": 10, "threshold": THRESHOLD}
    return all(point.get(name, value) == value for name, value in usual.items())


def check_trial(trial: Any, objectives: Sequence[str]) -> None:
    """Raise ValueError if what a trial of a study file says cannot be used; anybody may have written it."""
    if trial.values is not None and len(trial.values) != len(objectives):
        raise ValueError(f"trial {trial.number} has {len(trial.values)} values for {len(objectives)} objectives")
    screened = trial.user_attrs.get(SCREEN, {})
    if not isinstance(screened, dict) or not all(_are_numbers(values) for values in screened.values()):
        raise ValueError(f"trial {trial.number} has no numbers where it was screened")
    outcome = trial.user_attrs.get(OUTCOME)
    if outcome is None:
        return
    curve, costs = outcome["curve"], outcome["costs"]
    metrics = [point["metrics"] for point in curve] if isinstance(curve, list) else None
    if not metrics or not all(_are_numbers(values) for values in [*metrics, costs]):
        raise ValueError(f"trial {trial.number} has no numbers as metrics or costs")
    if not all(values.keys() >= set(objectives) for values in metrics) or not costs.keys() >= set(COSTS):
        raise ValueError(f"trial {trial.number} lacks a metric or a cost")
    if not isinstance(outcome["model"], str) or not isinstance(outcome["values"], dict):
        raise ValueError(f"trial {trial.number} does not say what was trained")


def _are_numbers(values: Any) -> bool:
    """Return whether this is a dict or list of finite numbers."""
    numbers = list(values.values()) if isinstance(values, dict) else values
    return isinstance(numbers, list) and all(type(n) in (int, float) and math.isfinite(n) for n in numbers)


def front(found: Sequence[Found], objectives: Sequence[str]) -> list[Found]:
    """Return the points that no other point beats in every objective, best in the first objective first."""
    values = _values(found, objectives)
    order = np.lexsort((np.arange(len(found)), *(-values[:, i] for i in reversed(range(len(objectives))))))
    kept: list[int] = []
    for i in order:
        if not any((values[j] >= values[i]).all() for j in kept):
            kept.append(int(i))
    return [found[i] for i in kept]


def pick(found: Sequence[Found], objectives: Sequence[str], rule: str, price: float) -> Found:
    """Return one point of the front.

    Parameters
    ----------
    found : sequence of Found
        All points.
    objectives : sequence of str
        Metrics.
    rule : str
        "knee": the point furthest beyond the line between the ends of the front. "price": the best of the other
        objectives among points whose first objective is at most `price` below the best. Or an objective: its best.
    price : float
        Points of the first objective, for "price".

    Returns
    -------
    Found
    """
    best = front(found, objectives)
    values = _values(best, objectives)
    if rule in objectives:
        return best[int(np.argmax(values[:, list(objectives).index(rule)]))]
    spread = np.ptp(values, axis=0)
    scaled = (values - values.min(axis=0)) / np.where(spread > 0, spread, 1.0)
    if rule == "knee":
        return best[int(np.argmax(scaled.sum(axis=1)))]
    affordable = {id(point) for point in at_price([f.point for f in best], objectives, price)}
    others = np.where([id(f.point) in affordable for f in best], scaled[:, 1:].sum(axis=1), -np.inf)
    return best[int(np.argmax(others))]


def check_rule(rule: str, objectives: Sequence[str]) -> str:
    """Return a rule of `pick` as objectives spell it, or raise ParameterError if these objectives do not have it."""
    known = [*objectives, *(["knee", "price"] if len(objectives) > 1 else [])]
    spelt = {name.lower(): name for name in known}
    if rule.lower() not in spelt:
        raise ParameterError(
            f"--pick {rule} cannot be used with --objectives {','.join(objectives)}; use {', '.join(known)}"
        )
    return spelt[rule.lower()]


def thinned(points: Sequence[Found], most: int, keep: Sequence[Found] = ()) -> list[Found]:
    """Return at most `most` points spread along a front, both ends and those to keep among them."""
    if len(points) <= most:
        return list(points)
    places = {round(i * (len(points) - 1) / (most - 1)) for i in range(most)}
    return [point for i, point in enumerate(points) if i in places or point in keep]


def in_words(values: Mapping[str, Any]) -> str:
    """Return parameters as one would type them: three digits, no settings that are off."""
    weighting = weighting_of(values)
    shown = [f"weighting={weighting}"] if weighting else []
    for key, value in values.items():
        if value is False or key.removeprefix("base.").startswith("weighting"):
            continue
        number = f"{value:.3g}" if isinstance(value, float) else str(value)
        shown.append(f"{key}={number}")
    return " ".join(shown)


def _values(found: Sequence[Found], objectives: Sequence[str]) -> Any:
    return np.asarray([[goodness(name, f.point["metrics"][name]) for name in objectives] for f in found])
