"""Arguments that several commands share, defined once."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from longtail.core.urls import path_or_url

DATA_HELP = (
    "JSON, CSV or XC file (also .gz, .xz, .zst), Parquet, SciPy .npz, dataset directory, folder or pattern of files, "
    "- for standard input, or an address such as s3://bucket/data.jsonl."
)

Data = Annotated[Path, typer.Argument(metavar="DATA", help=DATA_HELP, show_default=False, parser=path_or_url)]
Source = Annotated[Path, typer.Argument(metavar="SRC", help=DATA_HELP, show_default=False, parser=path_or_url)]
MaybeData = Annotated[
    Path | None, typer.Argument(metavar="DATA", help=DATA_HELP, show_default=False, parser=path_or_url)
]
ModelOrData = Annotated[
    Path,
    typer.Argument(metavar="MODEL|DATA", help="Model directory or data.", show_default=False, parser=path_or_url),
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace existing output.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
Propensity = Annotated[
    str, typer.Option(metavar="A,B", help="Propensity parameters, or a preset: default, wikipedia, amazon.")
]

Exponent = Annotated[
    float | None,
    typer.Option(
        metavar="E", help="For auto, propensityrerank and ranknet: 0 ranks as the base does, 1 favours rare labels."
    ),
]

Fallback = Annotated[
    str,
    typer.Option(
        metavar="none|popular",
        help="Labels of points without a word or feature that the model knows: none, or the most frequent.",
    ),
]
Calibrate = Annotated[
    str,
    typer.Option(
        metavar="auto|yes|no",
        help="Probabilities: auto where they cost next to nothing, yes also by a second training.",
    ),
]
Probabilities = Annotated[
    bool, typer.Option("--probabilities", help="Probabilities as scores; the model must be calibrated.")
]
Budget = Annotated[
    float | None, typer.Option(metavar="N", help="Labels per point on average; the model must be calibrated.")
]
Recall = Annotated[
    float | None,
    typer.Option(metavar="R", help="As few labels as contain this share of the observed ones, e.g. 0.9 (calibrated)."),
]
Confidence = Annotated[float | None, typer.Option(metavar="C", help="For --recall: promise it with this confidence.")]
Optimise = Annotated[
    str | None,
    typer.Option(metavar="WHAT", help="Choose labels of all points together: macro-f1, macro-recall or coverage."),
]
K = Annotated[int | None, typer.Option("-k", help="Labels per point; default: 5.", show_default=False)]
Subject = Annotated[
    Path, typer.Argument(metavar="MODEL|FILE", help="Model directory or predictions file.", show_default=False)
]
Against = Annotated[
    list[Path] | None,
    typer.Option(
        metavar="MODEL|FILE", help="Another model or predictions of the same points to compare with; may repeat."
    ),
]
Threshold = Annotated[
    float | None,
    typer.Option(
        metavar="SCORE",
        help="Leave out labels whose score is below this; with --probabilities, keep all others.",
    ),
]


@contextmanager
def said_as(**options: str) -> Iterator[None]:
    """Name options as the user typed them where an error names a parameter of the library."""
    from longtail.errors import ParameterError

    try:
        yield
    except ParameterError as error:
        said = str(error)
        for name, option in options.items():
            said = re.sub(rf"(?<![\w.-]){name}(?![\w=(])", option, said)
        raise ParameterError(said) from error


def check_apart(target: Path, *sources: Path | None) -> None:
    """Raise OutputError if a result would overwrite one of its own inputs."""
    from longtail.errors import OutputError

    given = [source for source in sources if source is not None and source.exists()]
    if target.exists() and any(source.samefile(target) for source in given):
        raise OutputError(f"{target} is the input; choose another output path")


def check_threads(threads: int | None) -> None:
    """Check --threads by the name that the user typed, not as the parameter `n_jobs`."""
    from longtail.errors import ParameterError

    if threads is not None and threads != -1 and threads < 1:
        raise ParameterError(f"--threads is {threads}, but must be a whole number of threads, or -1 for all cores")


def load(path: Path, exponent: float | None) -> Any:
    """Load a model, with another exponent if one is given."""
    from longtail.core.model import load_model
    from longtail.errors import ParameterError
    from longtail.features.pipeline import model_behind

    model = load_model(path)
    if exponent is None:
        return model
    if "exponent" not in model.options():
        raise ParameterError(
            f"{path}: {type(model_behind(model)).__name__} has no exponent; train with --model propensityrerank or "
            "ranknet"
        )
    model = model.adjusted(exponent=exponent)
    with said_as(exponent="--exponent"):
        model_behind(model).check_parameters()
    return model


def check_probabilities(model: Any, path: Path, *, with_points: bool = False) -> None:
    """Raise ParameterError if a model has no probabilities, or if no unseen points say what a threshold gives."""
    from longtail.errors import ParameterError

    if not model.has_probabilities():
        lacks = "has no probabilities; calibrate it on points that it was not trained on"
    elif with_points and model.own_calibration() is None:
        lacks = (
            "has probabilities, but --budget and --recall also need points that it was not trained on, to see how many "
            "labels and which share of the observed ones a probability gives"
        )
    else:
        return
    raise ParameterError(f"{path} {lacks}: longtail calibrate {path} DATA")


def check_reads_texts(model: Any, path: Path) -> None:
    """Raise ParameterError if a model was trained on features."""
    from longtail.errors import ParameterError

    if model.input_kind != "text":
        raise ParameterError(f"{path} was trained on features and cannot read a text; train it on texts, or give DATA")
