"""longtail explain: what each word of a text contributed to the score of a label."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from longtail.app import options


def explain(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="Model directory.", show_default=False)],
    text: Annotated[str, typer.Argument(metavar="TEXT", help="One text, in quotes.", show_default=False)],
    label: Annotated[
        str,
        typer.Option(
            "--label",
            metavar="NAME",
            help="Name of the label, or its id if no label has that name; default: the best label.",
        ),
    ] = "",
    as_json: options.AsJson = False,
) -> None:
    """Show how much each word of a text contributed to the score of a label."""
    from longtail.app.console import print_json, print_table
    from longtail.core.model import load_model
    from longtail.errors import DataError

    loaded = load_model(model)
    options.check_reads_texts(loaded, model)
    names = loaded.label_names_
    if label:
        is_id = label.isdecimal() and label not in (names or [])  # a name that looks like an id is a name
        wanted = int(label) if is_id else label
    else:
        wanted = int(loaded.predict([text], k=1).labels[0, 0])
        if wanted < 0:
            raise DataError("the text contains no word that the model knows, so it has no best label; give --label")
    found = loaded.explain(text, wanted)
    shown = str(found.label) if names is None else names[found.label]
    if as_json:
        tokens = [{"token": t.token, "start": t.start, "end": t.end, "weight": t.weight} for t in found.tokens]
        named = {} if loaded.vocabulary_ is None else {"name": loaded.shown_name(found.label)}
        print_json({"label": shown, **named, "score": found.score, "tokens": tokens})
        return
    ranked = sorted(found.tokens, key=lambda token: -abs(token.weight))[:20]
    rows = [[token.token, f"{token.start}", f"{token.weight:+.3f}"] for token in ranked]
    print_table(f"{loaded.shown_name(found.label)}: score {found.score:.3f}", ["token", "at", "weight"], rows)
