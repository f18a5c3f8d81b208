"""One set of parameters to try: how it becomes an estimator, and how it is written down as a recipe."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from longtail.core.estimator import Estimator
from longtail.tune.space import UNIT_ROWS, weighting_of
from longtail.workflow.build import build_estimator

RERANK = "propensityrerank"
Recipe = dict[str, Any]


@dataclass(frozen=True)
class Candidate:
    """A model with values of its parameters, by the names of the command line.

    Parameters
    ----------
    model : str
        Name, e.g. "bonsai" or "ranknet/bonsai".
    values : dict
        Parameters, the weighting and its strength (0 for none) and settings of features (`features.`) among them.
    seed : int, default 0
        Seed of the training.
    threads : int, optional
        Number of threads.
    """

    model: str
    values: dict[str, Any] = field(default_factory=dict)
    seed: int = 0
    threads: int | None = None

    @property
    def unit_rows(self) -> bool:
        return bool(self.values.get(UNIT_ROWS, False))

    def own_names(self) -> list[str]:
        """Return the parameters that are set, by their names in the model or in its base."""
        return [key.removeprefix("base.") for key in self.values]

    def estimator(self, *, text: bool = False, point: Mapping[str, Any] | None = None) -> Estimator:
        """Return the unfitted estimator.

        Parameters
        ----------
        text : bool, default False
            Put TF-IDF features before it; otherwise it gets features that are prepared already.
        point : mapping, optional
            Point of its curve: its options are set, and its exponent puts a re-ranker around the model.

        Returns
        -------
        Estimator
        """
        model = self._model(point or {})
        settings = dict(model.get("parameters", {}))
        if text:
            settings |= {key: value for key, value in self.values.items() if key.startswith("features.")}
        return build_estimator(
            model["name"], text=text, unit_rows=not text and point is not None and self.unit_rows,
            base=model.get("base"), weighting=model.get("weighting"), settings=settings, threads=self.threads,
            seed=self.seed,
        )  # fmt: skip

    def recipe(self, point: Mapping[str, Any], data: Mapping[str, Any], propensity: list[float]) -> Recipe:
        """Return the content of a recipe that trains the model with the options of a point of its curve.

        The threshold of a point is no parameter of the model: it says how its label sets are scored.
        """
        features = {k.removeprefix("features."): v for k, v in self.values.items() if k.startswith("features.")}
        content: Recipe = {"seed": self.seed, "data": dict(data)}
        if any(value is not False for value in features.values()):
            content["features"] = features
        evaluate = {"propensity": propensity} | {key: point[key] for key in ("threshold",) if key in point}
        return content | {"model": self._model(point), "evaluate": evaluate}

    def _model(self, point: Mapping[str, Any]) -> dict[str, Any]:
        """Return the section `model` of a recipe."""
        name, _, base = self.model.partition("/")
        apart = ("features.", "weighting", "base.weighting")
        plain = {key: value for key, value in self.values.items() if not key.startswith(apart)}
        options = {key: value for key, value in point.items() if key not in ("metrics", "exponent", "threshold")}
        exponent = point.get("exponent", 0.0)
        if base:  # a wrapper: it has an exponent of its own, or none
            plain |= {f"base.{key}": value for key, value in options.items()}
            plain |= {"exponent": exponent} if "exponent" in point else {}
        elif exponent > 0:
            plain = {f"base.{key}": value for key, value in (plain | options).items()} | {"exponent": exponent}
            name, base = RERANK, name
        else:
            plain |= options
        chosen = {"name": name, "base": base, "weighting": weighting_of(self.values)}
        return {key: value for key, value in chosen.items() if value} | ({"parameters": plain} if plain else {})


def to_toml(content: Mapping[str, Any], heading: str = "") -> str:
    """Return the content of a recipe as TOML, with comment lines before it."""
    lines = [f"# {line}" for line in heading.splitlines()]
    lines += _lines(content, "")
    return "\n".join(lines) + "\n"


def _lines(content: Mapping[str, Any], prefix: str) -> list[str]:
    # JSON's strings, numbers, booleans and lists are TOML's, too.
    lines = [
        f"{_key(name)} = {json.dumps(value, ensure_ascii=False)}"
        for name, value in content.items()
        if not isinstance(value, dict)
    ]
    for name, value in content.items():
        if isinstance(value, dict):
            inner = _lines(value, f"{prefix}{_key(name)}.")
            lines += ["", f"[{prefix}{_key(name)}]", *inner] if value else []
    return lines


def _key(name: str) -> str:
    return name if name.replace("_", "").replace("-", "").isalnum() and name.isascii() else json.dumps(name)
