"""Encode constructor parameters as JSON and decode them, nested estimators and weightings included; never by pickle."""

from __future__ import annotations

import dataclasses
import os
from typing import Any

import numpy as np

from longtail.core import registry
from longtail.core.base import Parameterised
from longtail.errors import ModelError, ParameterError

_CLASS = "$class"
_TUPLE = "$tuple"


def encode(value: Any) -> Any:
    """Return a parameter value as JSON; registered objects become their name and parameters.

    Parameters
    ----------
    value : object
        Number, string, path, array, list, tuple, dict, or an object of a registered class (see `core.registry`).

    Returns
    -------
    object
        What `json.dumps` takes; `decode` turns it back, with arrays as lists and paths as strings.

    Raises
    ------
    ParameterError
        If the value, or one inside it, is of another type.
    """
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, tuple):  # JSON knows only lists, and some parameters (ngram_range) must stay tuples
        return {_TUPLE: [encode(item) for item in value]}
    if isinstance(value, list):
        return [encode(item) for item in value]
    if isinstance(value, dict):
        return {str(key): encode(item) for key, item in value.items()}
    saved = {k: encode(v) for k, v in parameters(value).items() if k not in getattr(value, "not_saved", ())}
    return {_CLASS: registry.name_of(type(value)), "params": saved}


def parameters(value: Any) -> dict[str, Any]:
    """Return the constructor parameters of an estimator or of a dataclass."""
    if isinstance(value, Parameterised):
        return dict(value.get_params(deep=False))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: getattr(value, f.name) for f in dataclasses.fields(value) if f.init}
    raise ParameterError(f"a parameter of type {type(value).__name__} cannot be saved")


def decode(value: Any) -> Any:
    """Return the value that `encode` made JSON of.

    Raises
    ------
    ModelError
        If a class is not registered or does not take the parameters.
    """
    if isinstance(value, list):
        return [decode(item) for item in value]
    if not isinstance(value, dict):
        return value
    if list(value) == [_TUPLE]:
        return tuple(decode(item) for item in value[_TUPLE])
    if _CLASS not in value:
        return {key: decode(item) for key, item in value.items()}
    try:
        cls = registry.named_class(value[_CLASS])
        return cls(**{key: decode(item) for key, item in value["params"].items()})
    except (KeyError, TypeError, AttributeError, ParameterError) as error:
        raise ModelError(f"the manifest's parameters cannot be read: {error}") from error
