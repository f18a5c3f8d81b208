"""longtail predict: a model and data in, ranked labels out."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from longtail.app import options


def predict(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A model directory.", show_default=False)],
    data: options.Data,
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FILE", help="FILE.jsonl, FILE.npz or FILE.txt.")],
    k: Annotated[int, typer.Option("-k", help="Labels a point.")] = 5,
    exponent: options.Exponent = None,
    overwrite: options.Overwrite = False,
    text_field: options.TextField = "text",
) -> None:
    """Predict the k best labels of every point and write them to a file."""
    from longtail.app.console import progress, say
    from longtail.bench.scoring import conform, predict_in_chunks
    from longtail.core.inputs import check_k
    from longtail.data import write_predictions

    check_output_file(out, overwrite=overwrite)
    loaded = options.load(model, exponent)
    check_k(k, loaded.n_labels_)
    dataset = options.read(data, text_field=text_field, labels_field=None)  # points to be labelled have none
    predictions = predict_in_chunks(loaded, conform(dataset, loaded), k, progress())
    write_predictions(predictions, out, label_names=loaded.label_names_, overwrite=overwrite)
    say(f"wrote {len(predictions):,} x {k} predictions to {out}")


def check_output_file(path: Path, *, overwrite: bool) -> None:
    """Say what is wrong with the place of a result before the work that leads to it."""
    from longtail.data.files import suffixes
    from longtail.errors import OutputError, ParameterError

    suffix, _ = suffixes(path)
    if suffix not in (".jsonl", ".npz", ".txt"):
        raise ParameterError(
            f"{path}: predictions are written as .jsonl, .npz or .txt; the ending {suffix!r} is neither"
        )
    if not path.parent.is_dir():
        raise OutputError(f"{path}: the folder {path.parent} does not exist")
    if not os.access(path.parent, os.W_OK):
        raise OutputError(f"{path}: the folder {path.parent} may not be written to")
    if path.exists() and not overwrite:
        raise OutputError(f"{path} exists; choose another place, or overwrite it (--overwrite)")
