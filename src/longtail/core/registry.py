"""Estimators and their parts by name, for the command line, recipes and model directories.

Classes are registered as text, so reading the list imports nothing. Loading a model only creates classes that are
registered: a manifest cannot ask for anything else.
"""

from __future__ import annotations

import difflib
import functools
import importlib
import importlib.metadata
from collections.abc import Iterable

from longtail.errors import ParameterError

_ESTIMATORS = {
    "popularity": "longtail.core.popularity:Popularity",
    "dismec": "longtail.linear.dismec:DiSMEC",
    "parabel": "longtail.trees.label.models:Parabel",
    "bonsai": "longtail.trees.label.models:Bonsai",
    "fastxml": "longtail.trees.instance.fastxml:FastXML",
    "pfastxml": "longtail.trees.instance.fastxml:PfastXML",
    "pfastrexml": "longtail.trees.instance.fastxml:PfastreXML",
    "propensityrerank": "longtail.compose.propensity_rerank:PropensityRerank",
    "ranknet": "longtail.compose.ranknet:RankNet",
    "taug": "longtail.compose.taug:Taug",
    "ensemble": "longtail.compose.ensemble:Ensemble",
    "auto": "longtail.compose.auto:AutoModel",
    "glas": "longtail.neural.glas:GLaS",
    "attentionxml": "longtail.neural.text.attentionxml:AttentionXML",
    "aplcxlnet": "longtail.neural.text.aplcxlnet:APLCXLNet",
    "xgrank": "longtail.neural.text.xgrank:XGRank",
    "textpipeline": "longtail.features.pipeline:TextPipeline",
    "unitrows": "longtail.features.pipeline:UnitRows",
}
_PARTS = {
    "textfeatures": "longtail.features.text:TextFeatures",
    "textembeddings": "longtail.neural.text.embeddings:TextEmbeddings",
    "propensitymodel": "longtail.objectives.propensity:PropensityModel",
    "pw": "longtail.objectives.weighting:PW",
    "pwcb": "longtail.objectives.weighting:PWcb",
    "unbiased": "longtail.objectives.weighting:Unbiased",
}

_MOST_LISTED = 50  # names that a message lists in full: enough for parameters, too few for labels


def register_estimator(name: str, target: str) -> None:
    """Add an estimator, so that it can be built by name, saved and loaded.

    Parameters
    ----------
    name : str
        Name in lower case, e.g. "mymodel".
    target : str
        Class as "my_package.module:MyModel".
    """
    _ESTIMATORS[name] = target


def register_part(name: str, target: str) -> None:
    """Add a class whose objects are parameters of models, e.g. a weighting, so that such models can be saved.

    Parameters
    ----------
    name : str
        Name in lower case, e.g. "myweighting".
    target : str
        Class as "my_package.module:MyWeighting".
    """
    _PARTS[name] = target


@functools.cache
def _installed(group: str) -> dict[str, str]:
    """Return what installed packages add, by their entry points; names of longtail itself cannot be replaced."""
    return {point.name: point.value for point in importlib.metadata.entry_points(group=group)}


def _estimators() -> dict[str, str]:
    return _installed("longtail.estimators") | _ESTIMATORS


def _classes() -> dict[str, str]:
    return _installed("longtail.parts") | _estimators() | _PARTS


def estimator_names() -> list[str]:
    """Return the names of all estimators, sorted."""
    return sorted(_estimators())


def estimator_class(name: str) -> type:
    """Return the estimator class with this name, e.g. "dismec"."""
    targets = _estimators()
    if name not in targets:
        raise ParameterError(unknown("model", name, targets))
    return _import(targets[name])


def named_class(name: str) -> type:
    """Return the class with this name: an estimator or a part (weighting, features, ...)."""
    targets = _classes()
    if name not in targets:
        said = unknown("class", name, targets)
        raise ParameterError(f"{said}; a class of another package must be installed or registered (register_estimator)")
    return _import(targets[name])


def name_of(cls: type) -> str:
    """Return the registered name of a class, or raise ParameterError if it has none."""
    target = f"{cls.__module__}:{cls.__qualname__}"
    for name, known in _classes().items():
        if known == target:
            return name
    register = "register_estimator" if hasattr(cls, "fit") else "register_part"
    raise ParameterError(
        f"{target} is not registered; call longtail.core.registry.{register}(name, {target!r}) first, both here and "
        "where the model is loaded"
    )


def unknown(what: str, name: str, known: Iterable[str]) -> str:
    """Return the message for an unknown name, e.g. 'unknown model "dismek"; did you mean "dismec"? known: ...'.

    Parameters
    ----------
    what : str
        What is named, e.g. "model".
    name : str
        The unknown name.
    known : iterable of str
        The known names. If there are many, such as labels, the message has only similar ones and their number.

    Returns
    -------
    str
    """
    known = sorted(known)
    many = len(known) > _MOST_LISTED
    close = [f'"{near}"' for near in difflib.get_close_matches(name, known, n=5 if many else 1)]
    hint = f"did you mean {', '.join(close)}? " if close else ""
    if many:
        examples = "" if close else f", e.g. {', '.join(known[:5])}"
        return f'unknown {what} "{name}"; {hint}{len(known):,} are known{examples}'
    return f'unknown {what} "{name}"; {hint}known: {", ".join(known)}'


def _import(target: str) -> type:
    module, _, qualname = target.partition(":")
    found: type = getattr(importlib.import_module(module), qualname)
    return found
