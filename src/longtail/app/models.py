"""longtail models: which models there are, what they read, and their parameters."""

from __future__ import annotations

import inspect
import re
from typing import Annotated, Any

import typer

from longtail.app import options


def models(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="Model, e.g. dismec.", show_default=False)] = None,
    as_json: options.AsJson = False,
) -> None:
    """List the models, one line each, or show the parameters of one."""
    from longtail.app.console import print_json, print_table
    from longtail.core import registry
    from longtail.errors import MissingExtraError

    if name is not None:
        cls = registry.estimator_class(name)
        rows = parameters(cls)
        if as_json:
            print_json({"model": name, "reads": reads(cls), "about": about(cls), "parameters": rows})
            return
        table = [[row["name"], row["default"], row["about"]] for row in rows]
        print_table(f"{name}: {about(cls)} Reads {reads(cls)}.", ["parameter", "default", "meaning"], table)
        return
    found = []
    for known in registry.estimator_names():
        try:
            cls = registry.estimator_class(known)
            found.append({"model": known, "reads": reads(cls), "about": about(cls)})
        except MissingExtraError as error:  # one that needs torch, say
            found.append({"model": known, "reads": "", "about": str(error)})
    if as_json:
        print_json({"models": found})
    else:
        print_table("models for --model", ["model", "reads", "what it is"], [list(row.values()) for row in found])


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
            found[name] = re.split(r"(?<=[.;])\s", words, maxsplit=1)[0].rstrip(";.") + "."
    return found
