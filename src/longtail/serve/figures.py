"""How good a served model is: what was kept beside it, and the file that the settings name."""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from longtail.core.evaluations import read_evaluations
from longtail.errors import ParameterError, first_line

logger = logging.getLogger(__name__)


def evaluations(model: Path, file: Path | None) -> list[dict[str, Any]]:
    """Return the evaluations of a model, that of the settings first.

    Parameters
    ----------
    model : path
        Directory of the model; `longtail evaluate --keep` keeps figures there.
    file : path or None
        What `longtail evaluate --json` printed, or the report.json of `longtail report`, which has the frontier, too.

    Returns
    -------
    list of dict
        With `data`, `date`, `points`, `metrics` (percent) and `frontier` (metrics per exponent; may be empty).

    Raises
    ------
    ParameterError
        If the file is neither of these.
    """
    named = [] if file is None else [_named(file)]
    kept, problems = read_evaluations(model)
    for problem in problems:
        logger.warning("%s", problem)
    fields = ("data", "date", "points", "metrics")
    return [*named, *({**{name: asdict(one)[name] for name in fields}, "frontier": []} for one in kept)]


def _named(file: Path) -> dict[str, Any]:
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
        read: Callable[[Any], dict[str, Any]] = _of_report if "frontier" in content else _of_evaluate
        return {"data": file.name, "date": None, "points": None, "frontier": [], **read(content)}
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        said = "neither the JSON of `longtail evaluate --json` nor the report.json of `longtail report`"
        raise ParameterError(f"{file}: {said} ({first_line(error)})") from error


def _of_report(content: dict[str, Any]) -> dict[str, Any]:
    about = content["about"]
    return {
        "data": "/".join(Path(about["test data"]).parts[-2:]),
        "date": about["date"],
        "points": int(content["data"]["test points"]),
        "metrics": _numbers({row["name"]: row["value"] for row in content["metrics"]["rows"]}),
        "frontier": [_numbers(row) for row in content["frontier"]],
    }


def _of_evaluate(content: dict[str, Any]) -> dict[str, Any]:
    return {"metrics": _numbers({name: value for name, value in content.items() if name != "against"})}


def _numbers(values: dict[str, Any]) -> dict[str, float]:
    """Return the values that are numbers; JSON has no others, but Python writes NaN."""
    return {str(name): float(value) for name, value in values.items() if value is not None and math.isfinite(value)}
