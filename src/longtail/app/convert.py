"""longtail convert: the same data in another format."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from longtail.app import options
from longtail.app.reading import read, reads_data


@reads_data
def convert(
    source: options.Source,
    target: Annotated[
        Path,
        typer.Argument(
            metavar="DST",
            help="File (its extension chooses the format) or, without an extension, dataset directory.",
            show_default=False,
        ),
    ],
    overwrite: options.Overwrite = False,
    *,
    reading: dict[str, Any],
) -> None:
    """Convert data to another format, e.g. to a directory that is memory-mapped when used."""
    from longtail.app.console import say, status
    from longtail.core import store
    from longtail.data import files, write_dataset
    from longtail.data.directory import KIND

    options.check_apart(target, source)
    if target.is_dir() or not target.suffix:
        store.check_free(target, kind=KIND, overwrite=overwrite)
    else:
        files.check_free(target, overwrite=overwrite)
    # Large data goes through files beside the target, which have no names and end with this process.
    dataset = read(source, reading, workspace=target.parent)
    with status(f"writing {target}"):
        write_dataset(dataset, target, overwrite=overwrite)
    say(f"wrote {dataset.n_points:,} points with {dataset.n_labels:,} labels to {target}")
