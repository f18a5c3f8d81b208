"""Result files, one per recipe and dataset, and the table that `longtail bench` prints of them."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from longtail.data import files
from longtail.errors import DataError, OutputError, first_line

Result = dict[str, Any]
_OURS = {"dataset", "recipe", "metrics", "command"}  # what every result file of longtail has


def _metric(name: str) -> Callable[[Result], str]:
    return lambda result: f"{result['metrics'][name]:.2f}" if name in result["metrics"] else "–"


def _measured(name: str, digits: int) -> Callable[[Result], str]:
    return lambda result: f"{result[name]:.{digits}f}" if result.get(name) is not None else "–"


def _tail_recall(result: Result) -> str:
    return f"{100 * result['bands']['tail']['recall']:.2f}" if result.get("bands") else "–"


TABLE: dict[str, Callable[[Result], str]] = {
    "recipe": lambda result: result["recipe"],
    **{name: _metric(name) for name in ("P@1", "P@3", "P@5", "PSP@1", "PSP@3", "PSP@5", "macro-F1@5", "coverage@5")},
    "tail R@5": _tail_recall,
    "train s": _measured("train_s", 1),
    "predict s": _measured("predict_s", 2),
    "peak MB": _measured("peak_rss_mb", 0),
    "model MB": _measured("model_mb", 1),
}


def table_rows(results: Iterable[Result], columns: Sequence[str] = tuple(TABLE)) -> list[list[str]]:
    """Return one row of cells per result; "–" stands for what a result does not have."""
    return [[TABLE[column](result) for column in columns] for result in results]


def result_file(folder: Path, dataset: str, recipe: str) -> Path:
    """Return the place of a result: <folder>/<dataset>/<recipe>.json."""
    return folder / dataset / f"{recipe}.json"


def check_writable(file: Path) -> None:
    """Raise OutputError if a result cannot be written there, or would replace a file that longtail bench did not write.

    Asked before a run that may take hours; changes nothing.
    """
    if os.path.lexists(file):
        if not _is_ours(file):
            raise OutputError(f"{file} was not written by longtail bench; choose another --out folder")
        if not os.access(file, os.W_OK):
            raise OutputError(f"{file} may not be written to")
    folder = next(place for place in file.absolute().parents if os.path.lexists(place))
    if not folder.is_dir():
        raise OutputError(f"{file.parent}: cannot be made ({folder} is not a folder)")
    if not os.access(folder, os.W_OK):
        raise OutputError(f"{folder} may not be written to")


def _is_ours(file: Path) -> bool:
    """Return whether the file is the result that longtail would write there."""
    try:
        result = read_result(file)
    except (OSError, DataError):
        return False
    return result_file(file.parent.parent, str(result["dataset"]), str(result["recipe"])) == file


def write_result(result: Result, folder: Path) -> Path:
    """Write <folder>/<dataset>/<recipe>.json and return its path; a reader never sees half a file."""
    file = result_file(folder, str(result["dataset"]), str(result["recipe"]))
    check_writable(file)  # once more: hours may have passed
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"{file}: could not be written ({error.strerror or error})") from error
    with files.writing(file, overwrite=True) as stream:
        stream.write((json.dumps(result, indent=1) + "\n").encode())
    return file


def read_result(file: Path) -> Result:
    """Read one result file."""
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise DataError(f"is not JSON ({first_line(error)})", path=file) from error
    if not isinstance(content, dict) or not content.keys() >= _OURS or not isinstance(content["metrics"], dict):
        raise DataError("is not a result of longtail bench", path=file)
    return content


def read_results(folder: Path) -> dict[str, dict[str, Result]]:
    """Read all results in a folder that `longtail bench --out` wrote: by dataset and recipe."""
    found: dict[str, dict[str, Result]] = {}
    for file in sorted(folder.glob("*/*.json")):
        result = read_result(file)
        found.setdefault(result["dataset"], {})[result["recipe"]] = result
    return found
