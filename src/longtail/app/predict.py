"""longtail predict: a model and data in, ranked labels out."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from longtail.app import options


def predict(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A model directory.", show_default=False)],
    data: Annotated[Path | None, typer.Argument(metavar="DATA", help=options.DATA_HELP, show_default=False)] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FILE", help="FILE.jsonl, FILE.npz or FILE.txt.")
    ] = None,
    text: Annotated[
        str | None, typer.Option("--text", metavar="TEXT", help="One text, in quotes, in place of DATA.")
    ] = None,
    k: Annotated[int, typer.Option("-k", help="Labels a point.")] = 5,
    exponent: options.Exponent = None,
    as_json: options.AsJson = False,
    overwrite: options.Overwrite = False,
    text_field: options.TextField = "text",
) -> None:
    """Predict the k best labels of every point and write them to a file; those of one --text are shown."""
    from longtail.app.console import progress, say
    from longtail.core.inputs import check_k
    from longtail.data import write_predictions
    from longtail.workflow.apply import conform, predict_in_chunks

    if text is not None and (data is not None or out is not None):
        raise typer.BadParameter("--text is one text whose labels are shown; give it, or DATA and --out FILE")
    if text is None and (data is None or out is None):
        raise typer.BadParameter("give DATA and --out FILE, or one --text TEXT")
    if data is not None and out is not None:
        options.check_apart(data, out)
        check_output_file(out, overwrite=overwrite)
    loaded = options.load(model, exponent)
    check_k(k, loaded.n_labels_)
    if text is not None:
        _show(loaded, model, text, k, as_json=as_json)
        return
    assert data is not None
    assert out is not None
    dataset = options.read(data, text_field=text_field, labels_field=None)  # points to be labelled have none
    predictions = predict_in_chunks(loaded, conform(dataset, loaded), k, progress())
    write_predictions(predictions, out, label_names=loaded.label_names_, overwrite=overwrite)
    say(f"wrote {len(predictions):,} x {k} predictions to {out}")


def _show(loaded: Any, model: Path, text: str, k: int, *, as_json: bool) -> None:
    """The labels of one text, best first."""
    from longtail.app.console import print_json, print_table
    from longtail.errors import ParameterError

    if loaded.input_kind != "text":
        raise ParameterError(f"{model} was trained on features and cannot read a text; train it on texts, or give DATA")
    found = loaded.predict([text], k=k)
    kept = found.labels[0] >= 0
    names = loaded.label_names_
    labels = [label if names is None else names[label] for label in found.labels[0][kept].tolist()]
    scores = found.scores[0][kept].tolist()
    if as_json:
        print_json({"labels": labels, "scores": scores})
    else:
        print_table(
            "labels, best first", ["label", "score"],
            [[str(label), f"{score:.3f}"] for label, score in zip(labels, scores, strict=True)],
        )  # fmt: skip


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
