"""Docstrings as the reference shows them: every parameter by itself, with its own default; functions begin with a verb.

mkdocstrings gives an entry such as `C, bias, tol : ...` the type and the default of its first name, so a grouped entry
puts false defaults on the site.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import re
from dataclasses import MISSING, dataclass
from functools import cached_property
from pathlib import Path

import pytest

pytest.importorskip("torch")

import longtail
from longtail.core import registry
from longtail.core.estimator import Estimator

# First words of public docstrings. A new verb is added here; a noun or an article is not.
VERBS = {
    "Add", "Combine", "Compute", "Convert", "Count", "Estimate", "Fit", "Generate", "Learn", "Load", "Make", "Match",
    "Raise", "Read", "Return", "Save", "Scale", "Set", "Summarize", "Train", "Transform", "Write", "Yield",
}  # fmt: skip
SECTION = r"\n-+\n(.*?)(?=^\w[^\n]*\n-+\n|\Z)"  # its lines, up to the title of the next one


def entries(text: str) -> dict[str, str | None]:
    """Return the entries of a Parameters section: what stands before the colon, and what after it (None: no colon)."""
    section = re.search("^Parameters" + SECTION, text, re.MULTILINE | re.DOTALL)
    found: dict[str, str | None] = {}
    for line in section[1].splitlines() if section else ():
        if line and not line.startswith(" "):
            name, colon, rest = line.partition(" : ")
            assert name not in found, f"{name} is described twice"
            found[name] = rest if colon else None
    return found


def value(written: str) -> object:
    """Return the value that a docstring writes: a Python literal, or a number such as 100,000."""
    try:
        return ast.literal_eval(re.sub(r"(?<=\d),(?=\d{3}\b)", "", written))
    except (SyntaxError, ValueError):
        return written


def says(described: str | None, default: object) -> bool:
    """Return whether a type description ends in ", default VALUE" with this value (objects: their repr).

    mkdocstrings shows the first of the {choices} as the default, so the default must come first there.
    """
    kind, separator, written = (described or "").rpartition(", default ")
    if not separator or (kind.startswith("{") and not kind.startswith(("{" + written + ",", "{" + written + "}"))):
        return False
    read = value(written)
    return written == repr(default) or (type(read) is type(default) and read == default)


def defaults(cls: type) -> dict[str, object]:
    """Return the parameters of a constructor with their defaults, those that a dataclass makes for each object too."""
    made = {f.name: f.default_factory for f in getattr(cls, "__dataclass_fields__", {}).values()}
    return {
        name: made[name]() if made.get(name, MISSING) is not MISSING else parameter.default
        for name, parameter in inspect.signature(cls).parameters.items()
    }


def mistakes(cls: type) -> list[str]:
    """What the Parameters section of a class says wrongly about its constructor."""
    described = entries(inspect.getdoc(cls) or "")
    taken = defaults(cls)
    found = [f"{cls.__name__} takes no {name}" for name in described if name not in taken]
    for name, default in taken.items():
        if name not in described:
            found.append(f"{cls.__name__}.{name} has no entry")
        elif default is inspect.Parameter.empty:
            if described[name] is None or ", default " in str(described[name]):
                found.append(f"{cls.__name__}.{name} has no default, but is described as {described[name]!r}")
        elif not says(described[name], default):
            found.append(f"{cls.__name__}.{name} is {default!r}, but described as {described[name]!r}")
    return found


def public_objects() -> dict[str, object]:
    """Return what `longtail` and the `__all__` of its rooms offer, by name."""
    rooms = [
        importlib.import_module(f"longtail.{found.name}")
        for found in pkgutil.iter_modules(longtail.__path__)
        if found.ispkg
    ]
    return {
        f"{place.__name__}.{name}": getattr(place, name)
        for place in (longtail, *rooms)
        for name in getattr(place, "__all__", ())
    }


@dataclass(frozen=True)
class Described:
    name: str
    text: str
    is_property: bool = False


def public_functions() -> list[Described]:
    """Return the public functions, and the public methods and properties of public classes, with their docstrings."""
    found = {}
    for name, thing in public_objects().items():
        if inspect.isfunction(thing):
            found[thing] = Described(name, inspect.getdoc(thing) or "")
        if not inspect.isclass(thing) or not thing.__module__.startswith("longtail."):
            continue
        for own, member in vars(thing).items():
            is_property = isinstance(member, (property, cached_property))
            made_here = getattr(member, "__module__", None) == thing.__module__  # scikit-learn adds set_fit_request
            if not own.startswith("_") and (is_property or (inspect.isroutine(member) and made_here)):
                text = inspect.getdoc(member if is_property else getattr(thing, own))
                found[member] = Described(f"{name}.{own}", text or "", is_property)
    return list(found.values())


@pytest.mark.parametrize("name", registry.estimator_names())
def test_every_parameter_of_an_estimator_is_described_with_its_own_default(name):
    assert mistakes(registry.estimator_class(name)) == []


@pytest.mark.parametrize("name", sorted(registry._PARTS))
def test_every_parameter_of_a_part_is_described_with_its_own_default(name):
    assert mistakes(registry.named_class(name)) == []


def test_the_bases_of_shared_parameters_are_described():
    from longtail.core.unseen import Splits
    from longtail.neural.estimator import NetworkEstimator
    from longtail.neural.plan import TrainingPlan

    assert [*mistakes(TrainingPlan), *mistakes(NetworkEstimator), *mistakes(Splits)] == []


def test_wrong_entries_are_found():
    class Wrong(Estimator):
        """A model.

        Parameters
        ----------
        C, bias : float, default 1.0
            Grouped.
        tol : float, default 0.1
            Another value.
        n_jobs : int
            No default.
        seed : int, default 0
            No such parameter.
        sample : int, default 100,000
            Right.
        name : str or None, default None
            Right.
        """

        def __init__(self, C=1.0, tol=0.2, n_jobs=-1, sample=100_000, name=None): ...

    assert mistakes(Wrong) == [
        "Wrong takes no C, bias",
        "Wrong takes no seed",
        "Wrong.C has no entry",
        "Wrong.tol is 0.2, but described as 'float, default 0.1'",
        "Wrong.n_jobs is -1, but described as 'int'",
    ]


@pytest.mark.parametrize(
    ("written", "default"),
    [
        ('str, default "P@1"', "P@1"),
        ("tuple of int, default (256,)", (256,)),
        ("tuple of int, default ()", ()),
        ("float, default 5e-5", 5e-5),
        ("int, default 500,000", 500_000),
        ("bool, default False", False),
        ("(A, B) or None, default None", None),
        ('{"linear", "cosine"}, default "linear"', "linear"),
    ],
)
def test_documented_forms_of_defaults(written, default):
    assert says(written, default)
    assert not says(written, "another")
    assert not says(written.replace(", default", ""), default)


def test_the_default_is_the_first_of_the_choices():
    assert not says('{"constant", "linear"}, default "linear"', "linear")


def test_a_whole_number_is_not_a_truth_value_or_a_float():
    assert not says("int, default 0", False)
    assert not says("int, default 1", 1.0)


def grouped(text: str) -> list[str]:
    """Return the lines that name several parameters, attributes or results at once."""
    sections = re.findall("^(?:Parameters|Attributes|Returns)" + SECTION, text, re.MULTILINE | re.DOTALL)
    lines = [line for section in sections for line in section.splitlines()]
    return [line for line in lines if re.fullmatch(r"\w+(, (\w+|\.\.\.))+( : .*)?", line)]


def test_no_docstring_groups_parameters():
    found = []
    for file in sorted(Path(longtail.__file__).parent.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, (ast.ClassDef, ast.FunctionDef)):
                found += [f"{file.name}, {node.name}: {line}" for line in grouped(ast.get_docstring(node) or "")]
    assert found == []


def test_a_grouped_entry_is_found():
    lines = ["C : float", "    Cost, loss.", "bias, tol : float", "    Both.", "epochs, ...", "    More."]
    text = "\n".join(["Train.", "", "Parameters", "----------", *lines])
    assert grouped(text) == ["bias, tol : float", "epochs, ..."]


def problem(described: Described) -> str | None:
    """Return what is wrong with the first sentence; properties may begin with a noun, as attributes do."""
    summary = " ".join(described.text.split("\n\n")[0].split())
    if not summary:
        return "no docstring"
    first = summary.split()[0]
    if not summary.endswith("."):
        return f"no period: {summary}"
    if described.is_property:
        return None if first[:1].isupper() and first not in ("Whether", "What") else f"begins with {first}"
    return None if first in VERBS else f"begins with {first}"


@pytest.mark.parametrize("described", public_functions(), ids=lambda described: described.name)
def test_public_functions_say_what_they_do(described):
    assert problem(described) is None


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("", "no docstring"),
        ("Number of labels.", "begins with Number"),
        ("The labels.", "begins with The"),
        ("Whether it fits.", "begins with Whether"),
        ("Return the labels", "no period: Return the labels"),
        ("Return the\nlabels.\n\nMore", None),
    ],
)
def test_a_sentence_without_a_verb_is_found(text, wrong):
    assert problem(Described("f", text)) == wrong
