"""longtail info: properties of a model or a dataset."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from longtail.app import options
from longtail.app.reading import read, reads_data


@reads_data
def info(
    path: options.ModelOrData,
    as_json: options.AsJson = False,
    as_markdown: Annotated[bool, typer.Option("--markdown", help="Print a model's card as Markdown.")] = False,
    *,
    reading: dict[str, Any],
) -> None:
    """Show the card of a model, or the properties of a dataset."""
    from longtail.app.console import print_fields, print_json, say
    from longtail.core import store
    from longtail.errors import ParameterError

    if as_json and as_markdown:
        raise ParameterError("--json and --markdown are two forms of the same; give one of them")
    if store.kind_of(path) == "model":
        from longtail.app.card import print_markdown, show_card
        from longtail.workflow.card import model_card

        card, problems = model_card(path)
        for problem in problems:
            say(f"warning: {problem}")
        if as_json:
            print_json(card)
        else:
            (print_markdown if as_markdown else show_card)(path, card)
        return
    if as_markdown:
        raise ParameterError(f"--markdown is for the card of a model, but {path} is not a model directory")
    fields = data_fields(read(path, reading))
    if as_json:
        print_json(fields)
    else:
        print_fields(str(path), fields)


def data_fields(dataset: Any) -> dict[str, Any]:
    """Return the properties of a dataset."""
    import numpy as np

    counts = dataset.label_counts
    per_point = np.diff(dataset.Y.indptr)
    seen = counts[counts > 0]
    fields: dict[str, Any] = {"kind": "data", "points": dataset.n_points}
    if dataset.X is not None:
        fields |= {"features": dataset.n_features, "features per point": dataset.X.nnz / max(dataset.n_points, 1)}
    if dataset.texts is not None:
        fields["characters per text"] = (
            float(np.mean([len(text) for text in dataset.texts])) if dataset.n_points else 0.0
        )
    return fields | {
        "labels": dataset.n_labels,
        "label names": dataset.label_names is not None,
        "labels per point": float(per_point.mean()) if dataset.n_points else 0.0,
        "points per label with points": float(seen.mean()) if seen.size else 0.0,
        "points without labels": int((per_point == 0).sum()),
        "labels without points": int((counts == 0).sum()),
        "labels with 1 to 4 points": int((seen < 5).sum()),
        "points of the most frequent label": int(counts.max(initial=0)),
    }
