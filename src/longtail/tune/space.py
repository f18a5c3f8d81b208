"""What is searched, model by model: the one place that says which parameters a search may change, and how far.

A range holds the default of the model, so that the defaults can be the first trial. Parameters that only trade time for
the same result (`tol`, `max_passes`, `n_trees`) and those that machines decide (`n_jobs`, `device`) are not searched;
`--fix` sets them. Beams and exponents are not here either: they are swept on the predictions of every fit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from longtail.core import codec, registry
from longtail.core.wrapper import Wrapper
from longtail.errors import ParameterError
from longtail.workflow.build import build_estimator


@dataclass(frozen=True)
class Real:
    """A number between two bounds; `log` searches its order of magnitude."""

    low: float
    high: float
    log: bool = False


@dataclass(frozen=True)
class Whole:
    """A whole number between two bounds; `log` searches its order of magnitude."""

    low: int
    high: int
    log: bool = False


@dataclass(frozen=True)
class Choice:
    """One of a few values."""

    values: tuple[Any, ...]


Range = Real | Whole | Choice
Space = dict[str, Range]

_COST = Real(0.1, 10.0, log=True)
# The dial begins at 0, which is no weighting: the default of every model.
_WEIGHTING: Space = {"weighting": Choice(("pw-cb", "pw")), "weighting.strength": Real(0.0, 1.0)}
_LABEL_TREE: Space = {
    "C": _COST,
    "bias": Real(0.05, 2.0, log=True),
    "prune": Real(0.01, 0.3, log=True),
    "max_leaf": Whole(20, 500, log=True),
    **_WEIGHTING,
}
_FOREST: Space = {"C": Real(0.5, 8.0, log=True), "max_leaf": Whole(5, 50, log=True), "bias": Real(0.25, 4.0, log=True)}

SPACES: dict[str, Space] = {
    "dismec": {
        "C": _COST,
        "bias": Real(0.1, 2.0, log=True),
        "prune": Real(0.01, 0.2, log=True),
        **_WEIGHTING,
    },
    "bonsai": _LABEL_TREE | {"n_children": Whole(8, 512, log=True), "max_depth": Whole(1, 4)},
    "parabel": _LABEL_TREE | {"n_children": Choice((2, 4, 8, 16))},
    "fastxml": _FOREST,
    "pfastxml": _FOREST,
    "pfastrexml": _FOREST
    | {"alpha": Real(0.5, 1.0), "gamma": Real(5.0, 100.0, log=True), "tail": Choice(("means", "linear"))},
    "glas": {
        "strength": Real(1.0, 1000.0, log=True),
        "learning_rate": Real(0.001, 0.03, log=True),
        "epochs": Whole(3, 20, log=True),
        "width": Choice((256, 512, 1024)),
        "keep": Real(0.5, 1.0),
        **_WEIGHTING,
    },
}
UNIT_ROWS = "features.unit_rows"  # of given features; texts always have rows of length 1
_FLAG = Choice((False, True))


def space_of(model: str, *, text: bool) -> Space:
    """Return the parameters that are searched for a model.

    Parameters
    ----------
    model : str
        Name, e.g. "bonsai"; "ranknet/bonsai" for a wrapper, whose base is searched.
    text : bool
        The data is texts.

    Returns
    -------
    dict of str to Range
        By the names of the command line, e.g. "C", or "base.C" inside a wrapper.

    Raises
    ------
    ParameterError
        If the model is unknown, or nothing is known about what to search.
    """
    name, slash, base = model.partition("/")
    cls = registry.estimator_class(name)
    if issubclass(cls, Wrapper):
        if cls.slot != "base":
            raise ParameterError(f"{name} cannot be tuned as a whole; tune its models, e.g. --model dismec,bonsai")
        inner = space_of(base if slash else "dismec", text=text)
        return {key if key.startswith("features.") else f"base.{key}": values for key, values in inner.items()}
    if slash:
        raise ParameterError(f"{name} wraps no other model, so {model!r} cannot be used")
    if name not in SPACES:
        raise ParameterError(f"there is no search space for {name}; models with one: {', '.join(sorted(SPACES))}")
    return SPACES[name] | ({} if text else {UNIT_ROWS: _FLAG})


def defaults(model: str, space: Mapping[str, Range]) -> dict[str, Any]:
    """Return the default values of what is searched."""
    name, _, base = model.partition("/")
    estimator = build_estimator(name, base=base or None)
    off = {UNIT_ROWS: False, "weighting": "pw-cb", "weighting.strength": 0.0}
    own = {key: key.removeprefix("base.") for key in space}
    return {key: off[name] if name in off else _default(estimator, key) for key, name in own.items()}


def _default(estimator: Any, key: str) -> Any:
    owner, *rest = key.split(".")
    value = codec.parameters(estimator)[owner]
    return _default(value, ".".join(rest)) if rest else value


def restricted(space: Space, fixed: Mapping[str, Any]) -> Space:
    """Return the space without what is fixed; a fixed weighting has its strength, e.g. "pw-cb:0.5"."""
    return {
        key: values for key, values in space.items() if key not in fixed and key.removesuffix(".strength") not in fixed
    }


def weighting_of(values: Mapping[str, Any]) -> str | None:
    """Return the weighting in values of parameters as one would type it, e.g. "pw-cb:0.5"; None for none."""
    owner = "base.weighting" if "base.weighting" in values else "weighting"
    name, strength = values.get(owner, "none"), values.get(f"{owner}.strength")
    if name in ("none", None) or (strength is not None and round(strength, 3) == 0):
        return None
    return str(name) if strength is None else f"{name}:{round(strength, 3):g}"
