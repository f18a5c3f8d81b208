"""One row per label as CSV or Parquet: counts, precision, recall and F1."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from longtail.data import files
from longtail.errors import OutputError
from longtail.metrics import BAND_NAMES, Matches, frequency_bands, label_table

SUFFIXES = (".csv", ".parquet")
_FORMULA = ("=", "+", "-", "@", "\t", "\r")  # a spreadsheet computes a cell that begins so


def check_label_file(path: Path, *, overwrite: bool) -> None:
    """Raise OutputError if `write_label_table` could not write this file; call it before long work."""
    suffix, compression = files.suffixes(path)
    if suffix not in SUFFIXES or compression:
        raise OutputError(f"{path}: unsupported extension {suffix + compression!r}; use .csv or .parquet")
    files.check_free(path, overwrite=overwrite)


def label_columns(
    matches: Matches,
    k: int,
    training_counts: NDArray[np.int64] | None,
    names: Sequence[str] | None,
    shown: Sequence[str] | None = None,
) -> dict[str, list[Any]]:
    """Return the columns of the table of labels.

    Parameters
    ----------
    matches : Matches
        Predictions matched with observed labels.
    k : int
        Cut-off.
    training_counts : ndarray of int64 or None
        Training points per label; None leaves out what depends on them.
    names : sequence of str or None
        Names of the labels; None for ids.
    shown : sequence of str or None, default None
        What people are shown for each label, as the column `name`.

    Returns
    -------
    dict of str to list
        Labels that occur neither in training nor in the test set nor in a prediction are left out.
    """
    counts = np.zeros(matches.n_labels, np.int64) if training_counts is None else training_counts
    table = label_table(matches, k, counts)
    bands = frequency_bands(table["training_count"])
    used = np.flatnonzero((table["training_count"] > 0) | (table["test_count"] > 0) | (table["predicted_count"] > 0))
    table = table[used]
    columns: dict[str, list[Any]] = {"label": _names(used, names)}
    if shown is not None:
        columns["name"] = _names(used, shown)
    if training_counts is not None:
        columns["band"] = [BAND_NAMES[band] for band in bands[used]]
        columns["training_count"] = table["training_count"].tolist()
    for name in ("test_count", "predicted_count", "hits"):
        columns[name] = table[name].tolist()
    return columns | {name: np.round(table[name], 6).tolist() for name in ("precision", "recall", "f1")}


def _names(labels: NDArray[np.intp], names: Sequence[str] | None) -> list[str]:
    known = 0 if names is None else len(names)
    return [str(label) if names is None or label >= known else names[label] for label in labels.tolist()]


def write_label_table(columns: dict[str, list[Any]], path: Path, *, overwrite: bool = False) -> None:
    """Write the columns of `label_columns`; the file name chooses CSV or Parquet."""
    check_label_file(path, overwrite=overwrite)
    with files.writing(path, overwrite=overwrite) as stream:
        if files.suffixes(path)[0] == ".parquet":
            import pyarrow as pa
            import pyarrow.parquet

            pa.parquet.write_table(pa.table(columns), stream)
            return
        stream.write(csv_of(columns).encode())


def csv_of(columns: dict[str, list[Any]]) -> str:
    """Return columns as CSV with a header; names that a spreadsheet would compute have an apostrophe before them."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(map(_shown_as_text, row) for row in zip(*columns.values(), strict=True))
    return buffer.getvalue()


def _shown_as_text(value: Any) -> Any:
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value
