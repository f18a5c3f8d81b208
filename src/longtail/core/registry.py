"""Estimators and their parts by name: for the command line, recipes, and for what a manifest may name.

Names point to classes as text, so that looking at the list imports nothing. Loading a model only ever makes classes
that stand here: a manifest cannot ask for anything else.
"""

from __future__ import annotations

import difflib
import importlib
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
    "glas": "longtail.neural.glas:GLaS",
    "attentionxml": "longtail.neural.text.attentionxml:AttentionXML",
    "aplcxlnet": "longtail.neural.text.aplcxlnet:APLCXLNet",
    "xgrank": "longtail.neural.text.xgrank:XGRank",
    "textpipeline": "longtail.features.pipeline:TextPipeline",
    "unitrows": "longtail.features.pipeline:UnitRows",
}
_PARTS = {
    "textfeatures": "longtail.features.text:TextFeatures",
    "propensitymodel": "longtail.objectives.propensity:PropensityModel",
    "pw": "longtail.objectives.weighting:PW",
    "pwcb": "longtail.objectives.weighting:PWcb",
    "unbiased": "longtail.objectives.weighting:Unbiased",
}

_MOST_LISTED = 50  # names that one message lists: enough for parameters, too few for labels


def register_estimator(name: str, target: str) -> None:
    """Add an estimator of your own: `register_estimator("mymodel", "my_package.module:MyModel")`."""
    _ESTIMATORS[name] = target


def register_part(name: str, target: str) -> None:
    """Add what models may hold as a parameter, e.g. a weighting of your own, so that they can be saved."""
    _PARTS[name] = target


def estimator_names() -> list[str]:
    return sorted(_ESTIMATORS)


def estimator_class(name: str) -> type:
    """The estimator class of this name, e.g. `"dismec"`."""
    if name not in _ESTIMATORS:
        raise ParameterError(unknown("model", name, _ESTIMATORS))
    return _import(_ESTIMATORS[name])


def named_class(name: str) -> type:
    """The class of this name, estimator or part (weighting, features, ...)."""
    targets = _ESTIMATORS | _PARTS
    if name not in targets:
        raise ParameterError(unknown("class", name, targets))
    return _import(targets[name])


def name_of(cls: type) -> str:
    """The registered name of a class; an error if it has none."""
    target = f"{cls.__module__}:{cls.__qualname__}"
    for name, known in (_ESTIMATORS | _PARTS).items():
        if known == target:
            return name
    register = "register_estimator" if hasattr(cls, "fit") else "register_part"
    raise ParameterError(
        f"{target} is not registered; call longtail.core.registry.{register}(name, {target!r}) first, here and where "
        "the model is loaded"
    )


def unknown(what: str, name: str, known: Iterable[str]) -> str:
    """'unknown model "dismek"; did you mean "dismec"? ...': one wording for every unknown name.

    Where many names are known, such as labels, only those near to this one are said, and how many there are.
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
