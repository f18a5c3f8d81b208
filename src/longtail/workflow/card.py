"""The card of a saved model: its data, training, parameters, versions and kept evaluations, as plain values."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from longtail.core import codec, store
from longtail.core.base import Parameterised
from longtail.core.estimator import Estimator
from longtail.core.evaluations import read_evaluations
from longtail.core.model import KIND, load_model
from longtail.core.vocabulary import Vocabulary
from longtail.core.wrapper import Wrapper
from longtail.features.pipeline import Pipeline, TextPipeline, model_behind

# What the lines of AutoModel's report say.
_CHOICE = ("data", "trials", "choice", "reason", "more time")


def model_card(path: str | os.PathLike[str]) -> tuple[dict[str, Any], list[str]]:
    """Return what is known about a saved model.

    Parameters
    ----------
    path : str or path-like
        Directory of the model.

    Returns
    -------
    card : dict
        JSON values by name. What a model does not say, e.g. its data if it was trained in Python, is left out.
    problems : list of str
        One line per kept evaluation that cannot be used.
    """
    model = load_model(path)
    manifest = store.read_manifest(path, KIND)
    found = sorted(parameters(model), key=lambda one: "." in one[0])  # those of the outermost model first
    evaluations, problems = read_evaluations(path)
    names = ("data", "date", "points", "propensity", "exponent", "metrics", "bands")
    return {
        "kind": "model",
        "class": type(model).__name__,
        "model": composed(model),
        "size MB": store.size_in_bytes(path) / 1e6,
        "input": model.input_kind,
        **_features(model),
        **training_facts(model.training_),
        "training points": model.n_points_,
        "labels": model.n_labels_,
        "label names": model.label_names_ is not None,
        "labels without training points": int((model.label_counts_ == 0).sum()),
        **({} if model.vocabulary_ is None else {"vocabulary": _named(model.vocabulary_)}),
        "probabilities": _probabilities(model),
        "choice": _choice(model_behind(model)),
        "training data fingerprint": model.fingerprint_,
        "changed parameters": {name: _shown(value) for name, value, default in found if repr(value) != repr(default)},
        "default parameters": {name: _shown(value) for name, value, default in found if repr(value) == repr(default)},
        "parameters": {name: _shown(value) for name, value in model.get_params().items()},
        "versions": manifest.get("versions", {}),
        "evaluations": [{name: getattr(one, name) for name in names} for one in evaluations],
    }, problems


def _probabilities(model: Estimator) -> str:
    calibration = model.own_calibration()
    if calibration is not None:
        return f"calibrated on {calibration.n_points:,} points"
    return "from its scores" if model.has_probabilities() else "none (longtail calibrate)"


def _choice(model: Any) -> dict[str, str]:
    """Return what a model chose in its training: AutoModel by the lines of its report, a re-ranker in one."""
    if hasattr(model, "report_"):
        return dict(zip(_CHOICE, model.report_, strict=False))
    said = model.choice() if hasattr(model, "choice") else None
    return {} if said is None else {"choice": said}


def _named(vocabulary: Vocabulary) -> str:
    languages = ", ".join(filter(None, vocabulary.languages()))
    return f"{len(vocabulary):,} concepts{' in ' * bool(languages)}{languages}"


def _features(model: Estimator) -> dict[str, int]:
    if isinstance(model, TextPipeline):
        return {"features": int(model.features_.n_features_)}
    return {"features": model.n_features_in_} if model.input_kind == "features" else {}


def training_facts(said: Any) -> dict[str, Any]:
    """Return data, date and seconds of the training, where the manifest has them; anybody may have written it."""
    if not isinstance(said, dict):
        return {}
    kinds = {"data": str, "date": str, "seconds": (int, float)}
    return {name: said[name] for name, kind in kinds.items() if isinstance(said.get(name), kind)}  # type: ignore[arg-type]


def composed(model: Any) -> str:
    """Return the classes of a model and of the models inside, as in "TextPipeline of RankNet of Bonsai"."""
    name = type(model).__name__
    # Which model AutoModel holds is known after its choice.
    parts = (vars(model).get("parts_") or model.parts) if isinstance(model, Wrapper) else []
    return f"{name} of {' and '.join(map(composed, parts))}" if parts else name


def parameters(model: Any) -> Iterator[tuple[str, Any, Any]]:
    """Yield name, value and default of each parameter, by the names that `longtail train --set` takes.

    Parameters
    ----------
    model : Estimator
        Model; of one inside a `TextPipeline` or `UnitRows` the names have no prefix.

    Yields
    ------
    tuple of str, object and object
    """
    defaults = type(model)._defaults()
    for name, value in codec.parameters(model).items():
        several = isinstance(value, list) and any(isinstance(item, Parameterised) for item in value)
        inner = {f"{name}.{i}": part for i, part in enumerate(value)} if several else {name: value}
        for place, part in inner.items():
            if not isinstance(part, Parameterised):
                yield place, part, defaults[name]
                continue
            prefix = "" if isinstance(model, Pipeline) and name == model.slot else f"{place}."
            yield from ((f"{prefix}{key}", found, default) for key, found, default in parameters(part))


def _shown(value: Any) -> Any:
    return value if value is None or isinstance(value, (bool, int, float, str)) else repr(value)
