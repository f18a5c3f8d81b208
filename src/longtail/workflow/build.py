"""Build an estimator from its name and named settings, for the command line and recipes."""

from __future__ import annotations

import dataclasses
import json
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any

from longtail.core import codec, registry
from longtail.core.base import Parameterised
from longtail.core.estimator import Estimator
from longtail.core.wrapper import Wrapper
from longtail.errors import ParameterError
from longtail.features.pipeline import TextPipeline, UnitRows
from longtail.objectives import PropensityModel, resolve_weighting

_WORDS = {"none": None, "true": True, "false": False}  # Python's spelling works, too


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
    """Return an unfitted estimator.

    Parameters
    ----------
    name : str
        Registered name, e.g. "dismec".
    text : bool, default False
        The data is texts: a model that reads features is put behind `TextFeatures`, whose settings begin with
        `features.`.
    unit_rows : bool, default False
        Scale rows of features to length 1, in training and in prediction.
    base : str, optional
        Model inside a wrapper, e.g. "bonsai"; "taug/bonsai" for a wrapper inside a wrapper, "dismec,bonsai" for an
        ensemble. If one model of an ensemble reads texts, those that read features are put behind `TextFeatures`.
    weighting : str, optional
        Name of a weighting, e.g. "pw", for each model that trains a loss.
    settings : mapping, optional
        Parameters by dotted name, e.g. `{"C": 0.5, "features.min_df": 2}`.
    threads : int, optional
        `n_jobs` of every part that has it.
    seed : int, optional
        `random_state` of every part that has it.

    Returns
    -------
    Estimator

    Raises
    ------
    ParameterError
        If a name is unknown, or a value does not fit.
    """
    model = _wrapped(registry.estimator_class(name)(), name, base)
    prefix = ""
    if text and model.input_kind == "features":
        model, prefix = TextPipeline(model=model).with_default_parts(), "model."
    elif unit_rows and model.input_kind == "features" and not isinstance(model, UnitRows):
        model, prefix = UnitRows(model=model), "model."
    if weighting is not None:
        model.set_params(**dict.fromkeys(_weighting_parameters(model, name), weighting))
        resolve_weighting(weighting)  # an unknown name is an error here, not after the data is read
    for key, value in (settings or {}).items():
        full = key if not prefix or key.split(".")[0] in codec.parameters(model) else prefix + key
        _assign(model, full.split("."), value, shown=key, known=_settable(model, prefix))
    _assign_everywhere(model, "n_jobs", threads)
    _assign_everywhere(model, "random_state", seed)
    return model


def _wrapped(model: Estimator, name: str, base: str | None) -> Estimator:
    """Put the base into a wrapper; without a name the default base, so that its parameters can be set."""
    if isinstance(model, Wrapper) and (base is None or model.slot in model.get_params(deep=False)):
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
    """Put models of features behind `TextFeatures` if another model reads texts."""
    if all(model.input_kind == "features" for model in models):
        return models
    return [
        TextPipeline(model=model).with_default_parts() if model.input_kind == "features" else model for model in models
    ]


def parse_settings(pairs: Sequence[str], *, option: str = "--set") -> dict[str, Any]:
    """Return settings as a mapping.

    Parameters
    ----------
    pairs : sequence of str
        Settings such as "C=0.5" or "features.min_df=2"; see `parse_value` for the values.
    option : str, default "--set"
        Option that they were typed after, for messages.

    Returns
    -------
    dict

    Raises
    ------
    ParameterError
        If one has no "=", or a key occurs twice.
    """
    settings: dict[str, Any] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key.strip():
            raise ParameterError(f"{option} {pair!r} cannot be read; write {option} key=value, e.g. {option} C=0.5")
        if key.strip() in settings:
            raise ParameterError(f"{option} {key.strip()} is given twice")
        settings[key.strip()] = parse_value(value.strip())
    return settings


def parse_value(text: str) -> Any:
    """Return a value written as JSON, as TOML, or as none, true or false; anything else is a string."""
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
    """Return the propensity model for "0.55,1.5", [0.55, 1.5] or the name of a preset."""
    parts = value.split(",") if isinstance(value, str) and "," in value else value
    if isinstance(parts, str):
        return PropensityModel.preset(parts)
    try:
        A, B = (float(part) for part in parts)
    except (TypeError, ValueError) as error:
        raise ParameterError(
            f"the propensity {value!r} cannot be read; write A,B (e.g. 0.55,1.5) or the name of a preset"
        ) from error
    return PropensityModel(A, B)


def _weighting_parameters(model: Estimator, name: str) -> list[str]:
    """Return the outermost parameters that take a weighting: one, or one per model of an ensemble."""
    owners = [key.removesuffix("weighting") for key in model.get_params() if key.split("__")[-1] == "weighting"]
    if not owners:
        raise ParameterError(f"{name} trains no loss, so it takes no weighting")
    outermost = [owner for owner in owners if not any(owner != o and owner.startswith(o) for o in owners)]
    return [f"{owner}weighting" for owner in outermost]


def _settable(model: Estimator, prefix: str) -> list[str]:
    """Return the name of every setting, as a caller would write it."""
    plain = [key for key, value in model.get_params().items() if not isinstance(value, Parameterised)]
    return [key.replace("__", ".").removeprefix(prefix) for key in plain]


def _assign(owner: Any, path: list[str], value: Any, *, shown: str, known: list[str]) -> Any:
    """Set a parameter of an estimator or of a part of it; return the owner (a new one if it is immutable)."""
    name, rest = path[0], path[1:]
    parameters = {str(i): part for i, part in enumerate(owner)} if isinstance(owner, list) else codec.parameters(owner)
    if name not in parameters:
        raise ParameterError(registry.unknown("parameter", shown, known))
    current = parameters[name]
    if rest:
        if name == "weighting" and current is None:
            raise ParameterError(f"the parameter {shown!r} cannot be set: no weighting is chosen (choose one, e.g. pw)")
        if name == "weighting" and isinstance(current, str):
            current = resolve_weighting(current)
        if not (isinstance(current, Parameterised | list) or dataclasses.is_dataclass(current)):
            raise ParameterError(f"the parameter {shown!r} cannot be set: {name} is {current!r} and has no parameters")
        value = _assign(current, rest, value, shown=shown, known=known)
    else:
        value = _like(current, value)
    if isinstance(owner, list):
        return [value if str(i) == name else part for i, part in enumerate(owner)]
    if isinstance(owner, Parameterised):
        return owner.set_params(**{name: value})
    return dataclasses.replace(owner, **{name: value})


def _like(current: Any, value: Any) -> Any:
    """Return the value in the type of the one that it replaces, if text or a list stands for it."""
    if isinstance(current, PropensityModel) and value is not None:  # the model decides whether it takes None
        return parse_propensity(value)
    return tuple(value) if isinstance(current, tuple) and isinstance(value, list) else value


def _assign_everywhere(model: Estimator, parameter: str, value: Any) -> None:
    if value is not None:
        model.set_params(**{key: value for key in model.get_params() if key.split("__")[-1] == parameter})
