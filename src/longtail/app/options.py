"""Arguments that several commands share, described once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

DATA_HELP = "XC file, JSON lines, CSV (these also .gz .xz .zst), Parquet, SciPy .npz, or a converted dataset directory."

Data = Annotated[Path, typer.Argument(metavar="DATA", help=DATA_HELP, show_default=False)]
TextField = Annotated[str, typer.Option(help="Field or column that holds the text.", rich_help_panel="Reading")]
LabelsField = Annotated[str, typer.Option(help="Field or column that holds the labels.", rich_help_panel="Reading")]
Separator = Annotated[str, typer.Option(help="Between labels in a CSV cell.", rich_help_panel="Reading")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace what is already there.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object for programs.")]
Propensity = Annotated[str, typer.Option(metavar="A,B", help="Propensity parameters, or default, wikipedia, amazon.")]

Exponent = Annotated[
    float | None,
    typer.Option(metavar="E", help="For propensityrerank, ranknet: 0 ranks as the base does, 1 favours rare labels."),
]


def read(path: Path, *, label_names: list[str] | None = None, **fields: Any) -> Any:
    """`read_dataset` with a sign of life on the terminal."""
    from longtail.app.console import status
    from longtail.data import read_dataset

    with status(f"reading {path}"):
        return read_dataset(path, label_names=label_names, **fields)


def check_apart(source: Path, target: Path) -> None:
    """That a result does not take the place of what it is made of."""
    from longtail.errors import OutputError

    if source.exists() and target.exists() and source.samefile(target):
        raise OutputError(f"{target} is what is read; write to another place")


def check_threads(threads: int | None) -> None:
    """Say it of the option that the user typed, not of the parameter that it becomes."""
    from longtail.errors import ParameterError

    if threads is not None and threads != -1 and threads < 1:
        raise ParameterError(f"--threads is {threads}, but must be a whole number of threads, or -1 for all cores")


def load(path: Path, exponent: float | None) -> Any:
    """The model at `path`, with another exponent where one is given."""
    from longtail.core.model import load_model
    from longtail.errors import ParameterError
    from longtail.features.pipeline import model_behind

    model = load_model(path)
    if exponent is None:
        return model
    if not model.takes("exponent"):
        raise ParameterError(
            f"{path}: {type(model_behind(model)).__name__} has no exponent; train with --model propensityrerank or "
            "ranknet"
        )
    return model.adjusted(exponent=exponent)
