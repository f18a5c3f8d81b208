"""An estimator from its name and from settings by name: what the command line and recipes have in common."""

from __future__ import annotations

import dataclasses
import json
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any

from sklearn.base import BaseEstimator

from longtail.core import codec, registry
from longtail.core.estimator import Estimator
from longtail.core.wrapper import Wrapper
from longtail.errors import ParameterError
from longtail.features.pipeline import TextPipeline, UnitRows
from longtail.features.text import TextFeatures
from longtail.objectives import PropensityModel, resolve_weighting

_WORDS = {"none": None, "true": True, "false": False}  # in Python's spelling, too


def build_estimator(
    name: str,
    *,
    text: bool = False,
    unit_rows: bool = False,
    base: str | None = None,
    weighting: str | None = None,
    settings: Mapping[str, Any] | None = None,
    threads: int | None = None,
    seed: int | None = None,
) -> Estimator:
    """The estimator `name`, unfitted.

    text: the data are texts, so a feature model is put behind `TextFeatures`; its settings begin with `features.`.
    unit_rows: the data are features whose rows are to be scaled to length 1, in training and in prediction.
    base: the model that a wrapper wraps, e.g. `bonsai`; `taug/bonsai` for a wrapper around another, `dismec,bonsai` for
    an ensemble; beside a model that reads texts, models of features are put behind `TextFeatures`.
    settings: parameters by dotted name, e.g. `{"C": 0.5, "features.min_df": 2}`.
    threads and seed reach every part that has `n_jobs` or `random_state`.
    """
    model = _wrapped(registry.estimator_class(name)(), name, base)
    prefix = ""
    if text and model.input_kind == "features":
        model, prefix = TextPipeline(model=model, features=TextFeatures()), "model."
    elif unit_rows and model.input_kind == "features":
        model, prefix = UnitRows(model=model), "model."
    if weighting is not None:
        model.set_params(**dict.fromkeys(_weighting_parameters(model, name), weighting))
        resolve_weighting(weighting)  # an unknown name is an error here, not after the data were read
    for key, value in (settings or {}).items():
        full = key if not prefix or key.split(".")[0] in codec.parameters(model) else prefix + key
        _assign(model, full.split("."), value, shown=key, known=_settable(model, prefix))
    _assign_everywhere(model, "n_jobs", threads)
    _assign_everywhere(model, "random_state", seed)
    return model


def _wrapped(model: Estimator, name: str, base: str | None) -> Estimator:
    """Put the base into a wrapper; where none is named, the default one, so that its parameters can be set."""
    if isinstance(model, Wrapper):
        if base is not None:
            several = model.slot == "models"
            parts = _of_one_kind([_named(part) for part in base.split(",")]) if several else _named(base)
            model.set_params(**{model.slot: parts})
        return model.with_default_parts()
    if base is not None:
        raise ParameterError(f"{name} wraps no other model, so the base {base!r} cannot be used")
    return model


def _named(text: str) -> Estimator:
    name, slash, inner = text.strip().partition("/")
    return _wrapped(registry.estimator_class(name)(), name, inner if slash else None)


def _of_one_kind(models: list[Estimator]) -> list[Estimator]:
    """Where one of them reads texts, the others read texts, too: by their features."""
    if all(model.input_kind == "features" for model in models):
        return models
    return [
        TextPipeline(model=model, features=TextFeatures()) if model.input_kind == "features" else model
        for model in models
    ]


def parse_settings(pairs: Sequence[str]) -> dict[str, Any]:
    """`["C=0.5", "features.min_df=2"]` as a mapping; values are JSON or TOML, anything else is a string."""
    settings: dict[str, Any] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key.strip():
            raise ParameterError(f"--set {pair!r} cannot be read; write --set key=value, e.g. --set C=0.5")
        if key.strip() in settings:
            raise ParameterError(f"--set {key.strip()} is given twice")
        settings[key.strip()] = parse_value(value.strip())
    return settings


def parse_value(text: str) -> Any:
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    try:
        return json.loads(text)
    except ValueError:
        pass
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def parse_propensity(value: str | Sequence[float]) -> PropensityModel:
    """The propensity model that `"0.55,1.5"`, `[0.55, 1.5]` or the name of a preset means."""
    parts = value.split(",") if isinstance(value, str) and "," in value else value
    if isinstance(parts, str):
        return PropensityModel.preset(parts)
    try:
        A, B = (float(part) for part in parts)
    except (TypeError, ValueError) as error:
        raise ParameterError(
            f"the propensity {value!r} cannot be read; write A,B (e.g. 0.55,1.5) or a preset"
        ) from error
    return PropensityModel(A, B)


def _weighting_parameters(model: Estimator, name: str) -> list[str]:
    """The outermost parameters that take a weighting: one, or one for each model of an ensemble."""
    owners = [key.removesuffix("weighting") for key in model.get_params() if key.split("__")[-1] == "weighting"]
    if not owners:
        raise ParameterError(f"{name} trains no loss, so a weighting cannot be used with it")
    outermost = [owner for owner in owners if not any(owner != o and owner.startswith(o) for o in owners)]
    return [f"{owner}weighting" for owner in outermost]


def _settable(model: Estimator, prefix: str) -> list[str]:
    """Every setting by the name that a caller would write."""
    plain = [key for key, value in model.get_params().items() if not isinstance(value, BaseEstimator)]
    return [key.replace("__", ".").removeprefix(prefix) for key in plain]


def _assign(owner: Any, path: list[str], value: Any, *, shown: str, known: list[str]) -> Any:
    """Set a parameter of an estimator, or of a part of it; returns the owner (a new one if it cannot be changed)."""
    name, rest = path[0], path[1:]
    parameters = {str(i): part for i, part in enumerate(owner)} if isinstance(owner, list) else codec.parameters(owner)
    if name not in parameters:
        raise ParameterError(registry.unknown("parameter", shown, known))
    current = parameters[name]
    if rest:
        if name == "weighting" and current is None:
            raise ParameterError(f"the parameter {shown!r} cannot be set: no weighting is chosen, e.g. pw")
        if name == "weighting" and isinstance(current, str):
            current = resolve_weighting(current)
        if not (isinstance(current, BaseEstimator | list) or dataclasses.is_dataclass(current)):
            raise ParameterError(f"the parameter {shown!r} cannot be set: {name} is {current!r} and has no parts")
        value = _assign(current, rest, value, shown=shown, known=known)
    else:
        value = _like(current, value)
    if isinstance(owner, list):
        return [value if str(i) == name else part for i, part in enumerate(owner)]
    if isinstance(owner, BaseEstimator):
        return owner.set_params(**{name: value})
    return dataclasses.replace(owner, **{name: value})


def _like(current: Any, value: Any) -> Any:
    """The value in the type of the one that it replaces, where text and lists can stand for it."""
    if isinstance(current, PropensityModel) and value is not None:  # None is for the model to take or to refuse
        return parse_propensity(value)
    return tuple(value) if isinstance(current, tuple) and isinstance(value, list) else value


def _assign_everywhere(model: Estimator, parameter: str, value: Any) -> None:
    if value is not None:
        model.set_params(**{key: value for key in model.get_params() if key.split("__")[-1] == parameter})
