"""longtail predict: ranked labels for every point of a dataset, or for one text."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from longtail.app import options


def predict(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="Model directory.", show_default=False)],
    data: Annotated[Path | None, typer.Argument(metavar="DATA", help=options.DATA_HELP, show_default=False)] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FILE", help="Output file: .jsonl, .npz or .txt.")
    ] = None,
    text: Annotated[
        str | None, typer.Option("--text", metavar="TEXT", help="One text, in quotes, instead of DATA.")
    ] = None,
    k: Annotated[int, typer.Option("-k", help="Labels per point.")] = 5,
    exponent: options.Exponent = None,
    as_json: options.AsJson = False,
    overwrite: options.Overwrite = False,
    text_field: options.TextField = "text",
) -> None:
    """Predict the k best labels per point and write them to a file, or print those of one --text."""
    from longtail.core.inputs import check_k

    if text is not None and (data is not None or out is not None):
        raise typer.BadParameter("give either --text TEXT, whose labels are printed, or DATA and --out FILE")
    if text is None and (data is None or out is None):
        raise typer.BadParameter("give DATA and --out FILE, or --text TEXT")
    if data is not None and out is not None:
        from longtail.data.predictions_io import check_predictions_path

        options.check_apart(data, out)
        check_predictions_path(out, overwrite=overwrite)  # before the work
    loaded = options.load(model, exponent)
    check_k(k, loaded.n_labels_)
    if text is not None:
        _show(loaded, model, text, k, as_json=as_json)
        return
    assert data is not None
    assert out is not None
    # Here, not above: one text needs neither readers nor writers, and must not wait for them.
    from longtail.app.console import progress, say
    from longtail.data import write_predictions
    from longtail.workflow.apply import conform, predict_in_chunks

    dataset = options.read(data, text_field=text_field, labels_field=None)  # they may be missing, and are not used
    predictions = predict_in_chunks(loaded, conform(dataset, loaded), k, progress())
    write_predictions(predictions, out, label_names=loaded.label_names_, overwrite=overwrite)
    say(f"wrote {len(predictions):,} x {k} predictions to {out}")


def _show(loaded: Any, model: Path, text: str, k: int, *, as_json: bool) -> None:
    """Print the labels of one text, best first."""
    from longtail.app.console import print_json, print_table

    options.check_reads_texts(loaded, model)
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
