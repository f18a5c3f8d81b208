"""Evaluations kept beside a model: one small JSON file per dataset, in the model's directory.

The manifest and the arrays stay as they are, so digests hold and earlier versions load the model. Each file names the
model that it belongs to by the digest of the manifest: figures of a model that was overwritten are never shown for its
successor. A file is written under a temporary name and renamed, so two evaluations at once lose nothing.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from longtail.core.array_file import describe, open_inside
from longtail.core.store import json_digest, read_manifest, write_synced
from longtail.core.unfinished import check_place, remove_dead_temporaries, temporary_name, unfinished
from longtail.errors import ModelError, OutputError, first_line

FORMAT = 1
_FILE = re.compile(r"evaluation-[0-9a-f]{12}\.json")
_LARGEST = 1 << 20  # bytes; one that longtail wrote has a few thousand


@dataclass(frozen=True)
class Evaluation:
    """What `longtail evaluate` found for one dataset.

    Parameters
    ----------
    data : str
        Name of the dataset.
    date : str
        When, as in "2026-11-16T19:20:00Z".
    points : int
        Number of points.
    metrics : dict of str to float
        Metrics in percent by name, e.g. "P@1".
    bands : dict of str to dict, or None
        Measures of head, torso and tail labels.
    propensity : str
        Propensity parameters, as they were typed.
    exponent : float or None
        Exponent, where one was chosen.
    """

    data: str
    date: str
    points: int
    metrics: dict[str, float]
    bands: dict[str, dict[str, float]] | None
    propensity: str
    exponent: float | None


def check_keepable(path: str | os.PathLike[str]) -> None:
    """Raise OutputError if no evaluation can be kept beside this model; call it before long work."""
    check_place(Path(path) / f"evaluation-{'0' * 12}.json")


def keep_evaluation(path: str | os.PathLike[str], found: Evaluation) -> Path:
    """Write an evaluation beside a model; an earlier one of the same dataset and options is replaced.

    Parameters
    ----------
    path : str or path-like
        Directory of the model.
    found : Evaluation
        What was found.

    Returns
    -------
    Path
        The new file.

    Raises
    ------
    OutputError
        If the directory cannot be written.
    """
    folder = Path(path)
    check_keepable(folder)
    model = read_manifest(folder, "model")["sha256"]
    bands = None if found.bands is None else {band: _finite(values) for band, values in found.bands.items()}
    found = replace(found, metrics=_finite(found.metrics), bands=bands)
    content: dict[str, Any] = {"kind": "evaluation", "format": FORMAT, "model": model, **asdict(found)}
    content["sha256"] = json_digest(json.loads(json.dumps(content)))
    what = json.dumps([found.data, found.propensity, found.exponent])
    file = folder / f"evaluation-{hashlib.sha256(what.encode(errors='surrogatepass')).hexdigest()[:12]}.json"
    try:
        remove_dead_temporaries(file)
        with unfinished(temporary_name(file)) as target:
            try:
                write_synced(target, json.dumps(content, indent=1).encode())
                os.replace(target, file)
            finally:
                target.unlink(missing_ok=True)
    except OSError as error:
        raise OutputError(f"{file}: could not be written ({error.strerror or error})") from error
    return file


def read_evaluations(path: str | os.PathLike[str]) -> tuple[list[Evaluation], list[str]]:
    """Return the evaluations that were kept beside a model.

    Parameters
    ----------
    path : str or path-like
        Directory of the model.

    Returns
    -------
    evaluations : list of Evaluation
        Those of this model, by name of the dataset.
    problems : list of str
        One line per file that cannot be used: damaged, or of a model that was overwritten.
    """
    folder = Path(path)
    model = read_manifest(folder, "model")["sha256"]
    found, problems = [], []
    for file in sorted(file for file in folder.iterdir() if _FILE.fullmatch(file.name)):
        try:
            content = _content(folder, file.name)
            if content.get("model") != model:
                problems.append(f"{file} is of an earlier model in this directory; evaluate again, or delete it")
                continue
            found.append(_checked(content))
        except (ModelError, OSError, MemoryError) as error:
            said = str(error) if isinstance(error, ModelError) else f"{file} cannot be read ({describe(error)})"
            problems.append(f"{said}; delete it, and evaluate again with --keep")
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            problems.append(
                f"{file} was altered, or was not written by longtail ({first_line(error)}); delete it, and evaluate "
                "again with --keep"
            )
    return sorted(found, key=lambda one: (one.data, one.date)), problems


def _content(folder: Path, name: str) -> dict[str, Any]:
    with open_inside(folder, name) as file:
        text = file.read(_LARGEST + 1)
    if len(text) > _LARGEST:
        raise ValueError("it is too large")
    content = json.loads(text)
    if not isinstance(content, dict) or content.get("kind") != "evaluation":
        raise ValueError("it is no evaluation")
    if content.get("format") != FORMAT:
        raise ValueError(f"it has format {str(content.get('format'))[:20]}, but this version reads format {FORMAT}")
    if content.get("sha256") != json_digest(content):
        raise ValueError("its digest differs")
    return content


def _checked(content: dict[str, Any]) -> Evaluation:
    """Return the evaluation in a file whose digest somebody may have made again."""
    data, date, points, propensity = (content[key] for key in ("data", "date", "points", "propensity"))
    if not all(isinstance(value, str) for value in (data, date, propensity)) or type(points) is not int:
        raise ValueError("a field has the wrong type")
    bands = content["bands"]
    if bands is not None:
        bands = {str(band): _numbers(values) for band, values in dict(bands).items()}
    exponent = None if content["exponent"] is None else _numbers({"": content["exponent"]})[""]
    return Evaluation(data, date, points, _numbers(content["metrics"]), bands, propensity, exponent)


def _finite(values: dict[str, float]) -> dict[str, float]:
    """Return the measures that exist: recall in a band without test labels does not."""
    return {name: value for name, value in values.items() if math.isfinite(value)}


def _numbers(values: Any) -> dict[str, float]:
    found = {str(name): float(value) for name, value in dict(values).items()}
    if not all(map(math.isfinite, found.values())):
        raise ValueError("a metric is not a number")
    return found
