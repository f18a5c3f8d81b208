"""The options about reading data, which every command that reads data has, and the reading itself."""

from __future__ import annotations

import functools
import inspect
import logging
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

logger = logging.getLogger(__name__)

# The options by the parameter of `read_dataset` that they set. None: not given, so its default holds.
_OPTIONS: dict[str, tuple[str, str, str]] = {
    "text": ("--text-field", "NAME", "Field or column with the text; several: title,abstract; default: text."),
    "fields": ("--fields", "HOW", "Several text fields: joined, or separate (own features); default: joined."),
    "labels": ("--labels-field", "NAME", "Field or column with the labels, or subjects[].uri; default: labels."),
    "label_texts": ("--label-texts-field", "NAME", "Names to show for these labels, e.g. subjects[].label."),
    "relevance": ("--relevance-field", "KEY", "Relevance beside a label; '' ignores it; default: weight."),
    "ids": ("--id-field", "NAME", "Field or column with the id of a point."),
    "weights": ("--weight-field", "NAME", "Field or column with the weight of a point in training."),
    "separator": ("--separator", "TEXT", "Separator between the labels in a CSV cell; default: ;."),
    "delimiter": ("--delimiter", "CHAR", "Character between CSV cells; default: found by looking."),
    "encoding": ("--encoding", "NAME", "Encoding of the file; default: utf-8, or by its byte order mark."),
}


def reads_data(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options about reading; it gets those that were typed as the dictionary `reading`."""

    @functools.wraps(command)
    def wrapper(**given: Any) -> None:
        reading = {name: given.pop(f"read_{name}") for name in _OPTIONS}
        command(**given, reading={name: value for name, value in reading.items() if value is not None})

    hints = get_type_hints(command, include_extras=True)
    parameters = [p for p in inspect.signature(command).parameters.values() if p.name != "reading"]
    parameters = [p.replace(annotation=hints[p.name]) for p in parameters]
    for name, (option, metavar, about) in _OPTIONS.items():
        kind = Annotated[str | None, typer.Option(option, metavar=metavar, help=about, rich_help_panel="Reading")]
        parameters.append(
            inspect.Parameter(f"read_{name}", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=kind)
        )
    wrapper.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    wrapper.__annotations__ = {p.name: p.annotation for p in parameters}
    return wrapper


def read(
    path: Path,
    reading: dict[str, Any],
    *,
    model: Any = None,
    label_names: list[str] | None = None,
    with_labels: bool = True,
    workspace: Path | None = None,
) -> Any:
    """Read a dataset, and show on a terminal that this is running.

    Parameters
    ----------
    path : Path
        Data.
    reading : dict
        Options that were typed, as `reads_data` hands them over.
    model : Estimator, optional
        Model whose training gives the options that were not typed.
    label_names : list of str, optional
        Label ids follow this list.
    with_labels : bool, default True
        Whether labels and weights are read.
    workspace : Path, optional
        Folder for files that hold what is read.

    Returns
    -------
    Dataset
    """
    from longtail.app.console import status
    from longtail.data import read_dataset
    from longtail.errors import DataError

    remembered = getattr(model, "reading_", None) or {}
    chosen = {**remembered, **reading}
    chosen = {name: _none_if_empty(name, value) for name, value in chosen.items()}
    if not with_labels:
        chosen = {name: value for name, value in chosen.items() if name not in ("label_texts", "relevance", "weights")}
        chosen["labels"] = None
    try:
        with status(f"reading {path}"):
            started = time.perf_counter()
            data = read_dataset(path, label_names=label_names, workspace=workspace, **chosen)
        logger.info("read %s in %.1f s: %r", path, time.perf_counter() - started, data)
        return data
    except DataError as error:
        names = [name for name in ("text", "labels", "ids") if name in remembered.keys() - reading.keys()]
        fields = {name: remembered[name] for name in names if with_labels or name != "labels"}
        if error.missing and fields:
            said = " ".join(f"{_OPTIONS[name][0]} {value}" for name, value in fields.items())
            none = "; --id-field '' reads no ids" if "ids" in fields else ""
            raise DataError(f"{error}; the model was trained with {said}{none}") from error
        raise


def data_name(path: Path) -> str:
    """Return how a model's records name its data: the file and its folder, not where they are on this machine."""
    if str(path) == "-":
        return "standard input"
    path = Path(str(path))  # an address without what is not for records
    parts = [part for part in path.parts if part not in (path.anchor, "..")][-2:]
    return os.fsencode(os.path.join("", *parts) or path).decode(errors="replace")  # a name need not be UTF-8


def kept(reading: dict[str, Any]) -> dict[str, Any] | None:
    """Return the options that a model keeps, so that they need not be typed again; None if there are none."""
    from longtail.core.model import KEPT_READING

    return {name: reading[name] for name in KEPT_READING if name in reading} or None


def _none_if_empty(name: str, value: str) -> str | None:
    """Return the value of an option; an empty name of a field stands for none."""
    return None if value == "" and name in ("label_texts", "relevance", "ids", "weights") else value
