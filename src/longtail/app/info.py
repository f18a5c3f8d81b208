"""longtail info: properties of a model or a dataset."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from longtail.app import options
from longtail.app.reading import read, reads_data

# What the lines of AutoModel's report say.
_CHOICE = ("choice: data", "choice: trials", "choice", "choice: reason", "choice: more time")


@reads_data
def info(
    path: Annotated[Path, typer.Argument(metavar="MODEL|DATA", help="Model directory or data.", show_default=False)],
    as_json: options.AsJson = False,
    *,
    reading: dict[str, Any],
) -> None:
    """Show the properties of a model or a dataset."""
    from longtail.app.console import print_fields, print_json
    from longtail.core import store

    fields = model_fields(path) if store.kind_of(path) == "model" else data_fields(read(path, reading))
    if as_json:
        print_json(fields)
    else:
        print_fields(str(path), fields)


def model_fields(path: Path) -> dict[str, Any]:
    """Return the properties of a saved model."""
    from longtail.core import store
    from longtail.core.model import KIND, load_model
    from longtail.features.pipeline import model_behind

    model = load_model(path)
    report = getattr(model_behind(model), "report_", [])
    manifest = store.read_manifest(path, KIND)
    return {
        "kind": "model",
        "class": type(model).__name__,
        "parameters": {key: _plain(value) for key, value in model.get_params().items()},
        "input": model.input_kind,
        **({"features": model.n_features_in_} if model.input_kind == "features" else {}),
        "labels": model.n_labels_,
        "label names": model.label_names_ is not None,
        **({} if model.vocabulary_ is None else {"vocabulary": repr(model.vocabulary_)}),
        "training points": model.n_points_,
        "labels without training points": int((model.label_counts_ == 0).sum()),
        **dict(zip(_CHOICE, report, strict=False)),
        "size MB": store.size_in_bytes(path) / 1e6,
        "training data fingerprint": model.fingerprint_,
        "versions": manifest["versions"],
    }


def _plain(value: Any) -> Any:
    return value if value is None or isinstance(value, (bool, int, float, str)) else repr(value)


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
