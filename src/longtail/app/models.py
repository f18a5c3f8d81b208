"""longtail models: which models there are, what they read, and their parameters."""

from __future__ import annotations

import inspect
import re
from typing import Annotated, Any

import typer

from longtail.app import options

# A line per model for somebody who chooses one; docs/choose-a-model.md has the figures behind them.
GOOD_FOR = {
    "aplcxlnet": "texts and a GPU; many labels, most of them rare",
    "attentionxml": "texts and a GPU, without a pretrained encoder",
    "auto": "a start: it tries a few models on your data and keeps the best",
    "bonsai": "tens of thousands of labels and more, on a CPU",
    "dismec": "up to some ten thousand labels on a CPU; often the most accurate single model",
    "ensemble": "the best precision, whatever it costs",
    "fastxml": "quick predictions for many points",
    "glas": "features and a GPU; small models where features and labels are many",
    "parabel": "very many labels and little time",
    "pfastrexml": "quick predictions, with more weight on rare labels",
    "pfastxml": "quick predictions, with some weight on rare labels",
    "popularity": "a baseline that every other model should beat",
    "propensityrerank": "more of the tail for a loss of precision that you choose, also after training",
    "ranknet": "a little more of the tail than propensityrerank, for a longer training",
    "taug": "rare labels learned better, for a longer training",
    "textpipeline": "texts, with a model that reads features inside (train does this by itself)",
    "unitrows": "raw counts or flags as features, with a model inside (train --unit-rows)",
    "xgrank": "texts and a GPU, with a pretrained encoder",
}


def models(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="Model, e.g. dismec.", show_default=False)] = None,
    as_json: options.AsJson = False,
) -> None:
    """List the models, one line each, or show the parameters of one."""
    from longtail.app.console import print_json, print_table, say
    from longtail.core import registry
    from longtail.errors import MissingExtraError

    if name is not None:
        cls = registry.estimator_class(name)
        rows = parameters(cls)
        if as_json:
            said = {"reads": reads(cls), "good for": GOOD_FOR.get(name, ""), "about": about(cls)}
            print_json({"model": name, **said, "parameters": rows})
            return
        table = [[row["name"], row["default"], row["about"]] for row in rows]
        print_table(f"{name}: {about(cls)} Reads {reads(cls)}.", ["parameter", "default", "meaning"], table)
        return
    found = []
    for known in registry.estimator_names():
        try:
            cls = registry.estimator_class(known)
            said = {"reads": reads(cls), "about": about(cls)}
        except MissingExtraError as error:  # one that needs torch, say
            said = {"reads": "", "about": str(error)}
        found.append({"model": known, "good for": GOOD_FOR.get(known, ""), **said})
    if as_json:
        print_json({"models": found})
    else:
        columns = ["model", "good for", "reads", "what it is"]
        print_table("models for --model", columns, [list(row.values()) for row in found])
        say("texts become TF-IDF features where a model reads features; longtail models NAME shows its parameters")


def about(cls: type) -> str:
    """Return the first sentence of the class's documentation."""
    first = (inspect.getdoc(cls) or "").partition("\n\n")[0].replace("\n", " ")
    return first.replace("`", "")


def reads(cls: Any) -> str:
    """Return what a model reads."""
    from longtail.core.wrapper import Wrapper

    if issubclass(cls, Wrapper) and cls.input_kind == "features":
        return "what its models read"
    return "texts" if cls.input_kind == "text" else "features"


def parameters(cls: Any) -> list[dict[str, str]]:
    """Return name, default and first sentence of each parameter of a class, as its docstring has them."""
    meanings, known = documented(cls), cls._get_param_names()
    return [
        {"name": name, "default": repr(parameter.default), "about": meanings.get(name, "")}
        for name, parameter in inspect.signature(cls).parameters.items()
        if name in known
    ]


def documented(cls: Any) -> dict[str, str]:
    """Return the first sentence per parameter in the NumPy-style docstrings of a class and its bases."""
    found: dict[str, str] = {}
    for owner in reversed(cls.__mro__):
        section = re.search(r"\nParameters\n-+\n(.*?)(?=\n\n\w+\n-+\n|\Z)", inspect.getdoc(owner) or "", re.DOTALL)
        entries = re.findall(r"^(\w+) :[^\n]*\n((?:    [^\n]*\n?)+)", section.group(1) if section else "", re.MULTILINE)
        for name, text in entries:
            words = " ".join(text.split()).replace("`", "")
            found[name] = re.split(r"(?<=[.;])(?<!e\.g\.)(?<!eq\.)(?<!al\.)\s", words, maxsplit=1)[0].rstrip(";.") + "."
    return found
