"""longtail predict: ranked labels for every point of a dataset, or for one text."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from longtail.app import options
from longtail.app.fitting import Place, Ray
from longtail.app.reading import read, reads_data

Out = Annotated[
    Path | None,
    typer.Option(
        "--out", "-o", metavar="FILE", help="Output file: .csv, .tsv, .jsonl, .parquet, .npz, .txt; - for stdout."
    ),
]
Text = Annotated[str | None, typer.Option("--text", metavar="TEXT", help="One text, in quotes, instead of DATA.")]
Keep = Annotated[
    str | None, typer.Option(metavar="COLUMN,...", help="Columns or fields of DATA to copy to the output.")
]


@reads_data
def predict(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="Model directory.", show_default=False)],
    data: options.MaybeData = None,
    out: Out = None,
    text: Text = None,
    k: options.K = None,
    threshold: options.Threshold = None,
    budget: options.Budget = None,
    recall: options.Recall = None,
    confidence: options.Confidence = None,
    optimise: options.Optimise = None,
    probabilities: options.Probabilities = False,
    keep: Keep = None,
    fallback: options.Fallback = "none",
    exponent: options.Exponent = None,
    as_json: options.AsJson = False,
    ray: Ray = None,
    overwrite: options.Overwrite = False,
    *,
    reading: dict[str, Any],
) -> None:
    """Predict the k best labels per point and write them to a file, or print those of one --text."""
    from longtail.core.fallback import FALLBACKS
    from longtail.core.inputs import check_k
    from longtail.core.parameters import check_choice
    from longtail.workflow.decide import Decision

    _check_given(text, data, out)
    with options.said_as(k="-k", threshold="--threshold"):
        decision = Decision(k, threshold, budget, recall, confidence, optimise, probabilities).checked()
    if data is not None and out is not None and str(out) != "-":
        from longtail.data.predictions_writer import check_predictions_path

        options.check_apart(out, data)
        check_predictions_path(out, overwrite=overwrite)  # before the work
    check_choice("--fallback", fallback, FALLBACKS)
    loaded = options.load(model, exponent)
    if decision.calibrated:
        options.check_probabilities(loaded, model, with_points=budget is not None or recall is not None)
    with options.said_as(budget="--budget", recall_at_least="--recall", confidence="--confidence"):
        decision.threshold_of(loaded)  # before the work: a recall may be out of reach
    k = check_k(decision.width(loaded), loaded.n_labels_)
    if text is not None:
        _show(loaded, model, text, k, fallback, decision, as_json=as_json)
        return
    assert data is not None
    assert out is not None
    place = Place(ray=ray)
    place.check(out)
    # Here, not above: one text needs neither readers nor writers, and must not wait for them.
    from longtail.app.console import progress, say
    from longtail.data import write_predictions
    from longtail.data.labels import SEPARATOR
    from longtail.workflow.apply import conform, predict_in_chunks

    # Labels may be missing, and are not used.
    dataset = read(data, reading, model=loaded, with_labels=False)
    columns = _kept(keep, data, dataset.n_points, reading)
    inputs = conform(dataset, loaded)
    if place.ray is None:
        found = predict_in_chunks(loaded, inputs, k, progress(), calibrated=decision.calibrated)
    else:
        found = _on_ray(place, model, {} if exponent is None else {"exponent": exponent}, inputs, k, decision)
    predictions = decision.apply(_filled(found, loaded, fallback), loaded)
    separator = {"separator": SEPARATOR, **(loaded.reading_ or {}), **reading}["separator"]  # as in the data
    ids, texts = (None, None) if _holds_numbers_only(out) else (dataset.ids, _label_texts(loaded))
    write_predictions(
        predictions, sys.stdout.buffer if str(out) == "-" else out, label_names=loaded.label_names_, label_texts=texts,
        ids=ids, columns=columns, separator=separator, overwrite=overwrite,
    )  # fmt: skip
    say(f"wrote {decision.described(predictions)} to {'stdout' if str(out) == '-' else out}")


def _on_ray(place: Place, model: Path, adjusted: dict[str, Any], inputs: Any, k: int, decision: Any) -> Any:
    from longtail.app.console import progress
    from longtail.core.run import Run
    from longtail.workflow.apply import ModelAt, predict_elsewhere

    with place.engine() as engine:
        shared = ModelAt(str(model.resolve()), adjusted, k, decision.calibrated)
        return predict_elsewhere(shared, inputs, Run(progress(), engine=engine))


def _check_given(text: str | None, data: Path | None, out: Path | None) -> None:
    if text is not None and (data is not None or out is not None):
        raise typer.BadParameter("give either --text TEXT, whose labels are printed, or DATA and --out FILE")
    if text is None and (data is None or out is None):
        raise typer.BadParameter("give DATA and --out FILE, or --text TEXT")


def _holds_numbers_only(out: Path) -> bool:
    from longtail.data import files

    return str(out) != "-" and files.suffixes(out)[0] in (".npz", ".txt")


def _label_texts(loaded: Any) -> list[str] | None:
    """Return what the vocabulary calls each label, if the model has one."""
    return None if loaded.vocabulary_ is None else [loaded.shown_name(label) for label in range(loaded.n_labels_)]


def _kept(keep: str | None, data: Path, n_points: int, reading: dict[str, Any]) -> dict[str, Any]:
    """Read the columns of DATA that are copied to the output."""
    from longtail.data.columns import read_columns
    from longtail.data.reading import Reading
    from longtail.errors import DataError

    if keep is None:
        return {}
    how = Reading(delimiter=reading.get("delimiter"), encoding=reading.get("encoding"))
    columns = read_columns(data, [name.strip() for name in keep.split(",") if name.strip()], how)
    for name, values in columns.items():
        if len(values) != n_points:
            raise DataError(f"column {name!r} has {len(values):,} values, but there are {n_points:,} points", path=data)
    return columns


def _filled(found: Any, loaded: Any, fallback: str) -> Any:
    """Say how many points have no labels, and give them the most frequent ones if asked to."""
    from longtail.app.console import say
    from longtail.core.fallback import with_popular

    count = int(found.empty.sum())
    if count:
        known = "word" if loaded.input_kind == "text" else "feature"
        given = "the most frequent labels"
        if fallback != "popular":
            given = f"no labels (--fallback popular gives {given})"
        if len(found) == 1:
            say(f"the point has no {known} that the model knows, and gets {given}")
        else:
            say(f"{count:,} of {len(found):,} points have no {known} that the model knows, and get {given}")
    return with_popular(found, loaded) if fallback == "popular" else found


def _show(loaded: Any, model: Path, text: str, k: int, fallback: str, decision: Any, *, as_json: bool) -> None:
    """Print the labels of one text, best first."""
    from longtail.app.console import print_json, print_table
    from longtail.errors import ParameterError

    options.check_reads_texts(loaded, model)
    if (loaded.reading_ or {}).get("fields") == "separate":
        raise ParameterError(f"{model} was trained on separate fields, which one --text does not have; give DATA")
    if decision.optimise is not None:
        raise ParameterError("--optimise chooses the labels of many points together; give DATA, not --text")
    found = _filled(loaded.predict([text], k=k, calibrated=decision.calibrated), loaded, fallback)
    found = decision.apply(found, loaded)
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
    columns = ["label", "probability" if decision.calibrated else "score"]
    if loaded.vocabulary_ is not None:
        columns, rows = (
            [columns[0], "id", columns[1]],
            [[row[0], str(label), row[1]] for row, label in zip(rows, labels, strict=True)],
        )
    print_table(f"labels, best first{_ranked_by(loaded, decision)}", columns, rows)


def _ranked_by(loaded: Any, decision: Any) -> str:
    """Return what explains an order that is not that of the probabilities beside the labels."""
    from longtail.workflow.decide import dial

    exponent = dial(loaded) if decision.probabilities and not decision.of_sets else None
    return f" (rare ones favoured, exponent {exponent:.3g})" if exponent else ""
