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


def read(path: Path, *, label_names: list[str] | None = None, **fields: Any) -> Any:
    """`read_dataset` with a sign of life on the terminal."""
    from longtail.app.console import status
    from longtail.data import read_dataset

    with status(f"reading {path}"):
        return read_dataset(path, label_names=label_names, **fields)
