"""longtail explain: how much each word of a text contributed to the score of a label."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from longtail.app import options
from longtail.app.reading import read, reads_data
from longtail.core.urls import path_or_url

SHOWN = 20  # tokens in the table
SHOWN_TEXT = 80  # characters of a training point's text


@reads_data
def explain(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="Model directory.", show_default=False)],
    text: Annotated[str, typer.Argument(metavar="TEXT", help="One text, in quotes.", show_default=False)],
    label: Annotated[
        str,
        typer.Option(
            "--label",
            metavar="NAME",
            help="Name of the label, as in the data or as shown, or its id; default: the best label.",
        ),
    ] = "",
    evidence: Annotated[
        Path | None,
        typer.Option(
            "--evidence",
            metavar="DATA",
            help="Training data: show the points with the label that are alike.",
            parser=path_or_url,
        ),
    ] = None,
    as_json: options.AsJson = False,
    *,
    reading: dict[str, Any],
) -> None:
    """Show how much each word of a text contributed to the score of a label.

    For linear models, label trees and wrappers of them, contributions and the bias sum to the score.
    """
    from longtail.app.console import print_json
    from longtail.core.model import load_model
    from longtail.errors import DataError

    loaded = load_model(model)
    options.check_reads_texts(loaded, model)
    if label:
        wanted = _called(loaded, label)
    else:
        wanted = int(loaded.predict([text], k=1).labels[0, 0])
        if wanted < 0:
            raise DataError("the text contains no word that the model knows, so it has no best label; give --label")
    found = loaded.explain(text, wanted)
    if evidence is not None:
        found = _evidence(evidence, reading, loaded).added_to(found, text)
    if as_json:
        print_json(as_object(loaded, found))
    else:
        _show(loaded, found)


def _called(model: Any, label: str) -> int | str:
    """Return the label of a name in the data, of one that people are shown, or of an id."""
    from longtail.errors import ParameterError

    names = model.label_names_ or []
    if label in names:  # also one that looks like an id
        return label
    if model.vocabulary_ is not None:
        found = [number for number in range(model.n_labels_) if model.shown_name(number) == label]
        if len(found) > 1:
            several = ", ".join(names[number] for number in found[:5])
            raise ParameterError(f"{len(found)} labels are called {label!r}; give --label one of {several}")
        if found:
            return found[0]
    return int(label) if label.isdecimal() else label


def _evidence(path: Path, reading: dict[str, Any], model: Any) -> Any:
    from longtail.errors import DataError
    from longtail.features.evidence import Evidence

    data = read(path, reading, model=model, label_names=model.label_names_)
    if data.texts is None:
        raise DataError("has no texts to compare with; give the training data of the model", path=path)
    if model.label_names_ is None and data.label_names is not None:
        raise DataError("has label names, but the model was trained without; they cannot be matched", path=path)
    return Evidence(model, data.texts, data.binary().Y, ids=data.ids)


def as_object(model: Any, found: Any) -> dict[str, Any]:
    """Return an explanation as what --json prints; keys about sums and evidence only where there are any."""
    names = model.label_names_
    shown: dict[str, Any] = {"label": str(found.label) if names is None else names[found.label]}
    if model.vocabulary_ is not None:
        shown["name"] = model.shown_name(found.label)
    tokens = [{"token": t.token, "start": t.start, "end": t.end, "weight": t.weight} for t in found.tokens]
    shown |= {"score": found.score, "tokens": tokens}
    if found.is_sum:
        shown["bias"] = found.bias
        shown["features"] = [{"name": f.name, "value": f.value, "contribution": f.contribution} for f in found.features]
    if found.evidence:
        shown["evidence"] = [{"id": n.id, "similarity": n.similarity, "text": n.text} for n in found.evidence]
    return shown


def _show(model: Any, found: Any) -> None:
    from longtail.app.console import print_table

    title = f"{model.shown_name(found.label)}: score {found.score:.3f}"
    if found.is_sum:
        ranked = sorted(found.features, key=lambda own: -abs(own.contribution))[:SHOWN]
        rows = [[own.name, f"{own.contribution:+.3f}"] for own in ranked]
        rest = sum(own.contribution for own in found.features) - sum(own.contribution for own in ranked)
        if len(found.features) > SHOWN:
            rows.append([f"({len(found.features) - SHOWN} others)", f"{rest:+.3f}"])
        rows.append(["(bias)", f"{found.bias:+.3f}"])
        print_table(title, ["term", "adds"], rows)
    else:
        ranked = sorted(found.tokens, key=lambda token: -abs(token.weight))[:SHOWN]
        rows = [[token.token, f"{token.start}", f"{token.weight:+.3f}"] for token in ranked]
        print_table(title, ["token", "at", "weight"], rows)
    if found.evidence:
        rows = [[n.id, f"{n.similarity:.3f}", " ".join(n.text.split())[:SHOWN_TEXT]] for n in found.evidence]
        print_table("training points with this label that are most alike", ["point", "cosine", "text"], rows)
