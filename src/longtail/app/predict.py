"""longtail predict: ranked labels for every point of a dataset, or for one text."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from longtail.app import options
from longtail.app.reading import read, reads_data


@reads_data
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
    *,
    reading: dict[str, Any],
) -> None:
    """Predict the k best labels per point and write them to a file, or print those of one --text."""
    from longtail.app.console import progress, say
    from longtail.core.inputs import check_k
    from longtail.data import write_predictions
    from longtail.data.predictions_io import check_predictions_path
    from longtail.workflow.apply import conform, predict_in_chunks

    if text is not None and (data is not None or out is not None):
        raise typer.BadParameter("give either --text TEXT, whose labels are printed, or DATA and --out FILE")
    if text is None and (data is None or out is None):
        raise typer.BadParameter("give DATA and --out FILE, or --text TEXT")
    if data is not None and out is not None:
        options.check_apart(data, out)
        check_predictions_path(out, overwrite=overwrite)  # before the work
    loaded = options.load(model, exponent)
    check_k(k, loaded.n_labels_)
    if text is not None:
        _show(loaded, model, text, k, as_json=as_json)
        return
    assert data is not None
    assert out is not None
    # Labels may be missing, and are not used.
    dataset = read(data, reading, model=loaded, with_labels=False)
    predictions = predict_in_chunks(loaded, conform(dataset, loaded), k, progress())
    write_predictions(predictions, out, label_names=loaded.label_names_, overwrite=overwrite)
    say(f"wrote {len(predictions):,} x {k} predictions to {out}")


def _show(loaded: Any, model: Path, text: str, k: int, *, as_json: bool) -> None:
    """Print the labels of one text, best first."""
    from longtail.app.console import print_json, print_table
    from longtail.errors import ParameterError

    options.check_reads_texts(loaded, model)
    if (loaded.reading_ or {}).get("fields") == "separate":
        raise ParameterError(f"{model} was trained on separate fields, which one --text does not have; give DATA")
    found = loaded.predict([text], k=k)
    kept = found.labels[0] >= 0
    names = loaded.label_names_
    ids = found.labels[0][kept].tolist()
    labels = [label if names is None else names[label] for label in ids]
    shown = [loaded.shown_name(label) for label in ids]
    scores = found.scores[0][kept].tolist()
    if as_json:
        print_json({"labels": labels, "scores": scores, **({} if loaded.vocabulary_ is None else {"names": shown})})
        return
    rows = [[name, f"{score:.3f}"] for name, score in zip(shown, scores, strict=True)]
    columns = ["label", "score"]
    if loaded.vocabulary_ is not None:
        columns, rows = (
            ["label", "id", "score"],
            [[row[0], str(label), row[1]] for row, label in zip(rows, labels, strict=True)],
        )
    print_table("labels, best first", columns, rows)
