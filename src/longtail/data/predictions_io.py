"""Read prediction files: .csv, .tsv, .jsonl and .parquet (`labels` and `scores` per point), .npz (the same as arrays)
and .txt (`label:score label:score`).
"""

from __future__ import annotations

import json
import logging
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from longtail.core.inputs import PathLike
from longtail.core.predictions import PAD_LABEL, PAD_SCORE, Predictions
from longtail.data import files
from longtail.data.columns import read_columns
from longtail.data.jsonl import read_objects
from longtail.data.labels import SEPARATOR
from longtail.data.npz import check_members
from longtail.data.predictions_writer import suffix_of
from longtail.errors import DataError, LongtailError, first_line

Row = tuple[list[Any], list[float]]

_BEYOND = 2**31 - 1  # label ids are int32
_UNSORTED = "scores must not increase along a row: the best label comes first (only probabilities, from 0 to 1, may)"

logger = logging.getLogger(__name__)


def read_predictions(
    path: PathLike,
    *,
    label_names: Sequence[str] | None = None,
    ids_follow_names: bool = True,
    separator: str = SEPARATOR,
) -> Predictions:
    """Read predictions that `write_predictions` or another program wrote, best label first.

    Scores must not increase along a row, unless all of them are probabilities: those of a ranking in favour of rare
    labels may, and a warning says in how many rows.

    Parameters
    ----------
    path : str or path-like
        File with the extension .csv, .tsv, .jsonl, .parquet, .npz or .txt, all but .parquet and .npz also with .gz, .xz
        or .zst. Columns and fields other than `labels` and `scores` are ignored.
    label_names : sequence of str, optional
        Needed to read files with label names: ids follow this list, and other names get the ids after it. Whole numbers
        are names if all label names are whole numbers, else ids.
    ids_follow_names : bool, default True
        Whether ids in the file are positions in `label_names`. If False, a file with ids is refused when label names
        are given, because the order of its ids is unknown.
    separator : str, default ";"
        Between the labels in a CSV or TSV cell.

    Returns
    -------
    Predictions

    Raises
    ------
    DataError
        If the file is missing, damaged or malformed; the message names file and line (or point).
    """
    suffix = suffix_of(path, DataError)
    if suffix in (".jsonl", ".csv", ".tsv", ".parquet"):
        label_id = _label_ids(label_names, path, ids_follow_names=ids_follow_names)
        entries = read_objects(path) if suffix == ".jsonl" else _table_entries(path, suffix, separator, label_names)
        return _collect(path, _labelled_rows(path, entries, label_id))
    if label_names is not None and not ids_follow_names:
        raise _ids_without_order(path)
    return _read_npz(path) if suffix == ".npz" else _collect(path, _txt_rows(path))


def _read_npz(path: PathLike) -> Predictions:
    with files.reading(path) as stream:
        try:
            check_members(stream)
            with np.load(stream, allow_pickle=False) as archive:
                # NumPy returns the bytes of a member that is not an array.
                labels, scores = np.asarray(archive["labels"]), np.asarray(archive["scores"])
        except LongtailError:
            raise
        except Exception as error:  # whatever a damaged archive makes zipfile, zlib and NumPy raise
            said = f"is not an archive with the arrays labels and scores, or is damaged ({first_line(error)})"
            raise DataError(said, path=path) from error
    if labels.dtype.kind not in "iu" or scores.dtype.kind != "f" or labels.ndim != 2:
        said = f"needs whole numbers as labels and floats as scores, (points, k); got {labels.dtype}, {scores.dtype}"
        raise DataError(said, path=path)
    if labels.shape != scores.shape:
        raise DataError(f"labels have shape {labels.shape}, but scores {scores.shape}", path=path)
    return _checked(labels, scores, lambda row, message: DataError(f"point {row}: {message}", path=path))


def _txt_rows(path: PathLike) -> Iterator[tuple[int, Row]]:
    with files.reading(path) as stream:
        for line, content in enumerate(files.lines(stream, path), start=1):
            row: Row = ([], [])
            for token in content.split():
                label, colon, score = token.partition(b":")
                if not colon or not label.isdigit():
                    raise DataError(f"expected label:score, like 7:0.25, at {token[:40]!r}", path=path, line=line)
                row[0].append(int(label) if len(label) < 12 else _BEYOND)
                row[1].append(_number(score, path, line))
            yield line, row


def _number(text: bytes, path: PathLike, line: int) -> float:
    try:
        return float(text)
    except ValueError as error:
        raise DataError(f"{text[:40]!r} is not a number", path=path, line=line) from error


def _label_ids(
    label_names: Sequence[str] | None, path: PathLike, *, ids_follow_names: bool
) -> Callable[[Any], int | None]:
    """Return a function from a label as written in the file to its id, or to None if it cannot be one."""
    ids = None if label_names is None else {name: i for i, name in enumerate(label_names)}
    numbers_are_names = ids is not None and all(name.isdecimal() for name in ids)

    def label_id(label: Any) -> int | None:
        whole = isinstance(label, int) and not isinstance(label, bool) and label >= 0
        if ids is not None and (isinstance(label, str) or (whole and numbers_are_names)):
            return ids.setdefault(str(label), len(ids))
        if whole and ids is not None and not ids_follow_names:
            raise _ids_without_order(path)
        return label if whole else None

    return label_id


def _ids_without_order(path: PathLike) -> DataError:
    return DataError(
        "contains label ids, which follow the order of the training labels; give the training data (--train DATA) or "
        "predictions as .jsonl with label names",
        path=path,
    )


def _table_entries(
    path: PathLike, suffix: str, separator: str, label_names: Sequence[str] | None
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the rows of a table as a .jsonl file would have them, numbered as its lines are, below the header."""
    found = read_columns(path, ("labels", "scores"))
    names = set(label_names or ())
    for row, (labels, scores) in enumerate(zip(found["labels"], found["scores"], strict=True), 2):
        entry = {"labels": labels, "scores": scores}
        if suffix != ".parquet":
            cells = [cell for cell in labels.split(separator) if cell]
            entry["labels"] = [int(c) if c.isdecimal() and len(c) < 12 and c not in names else c for c in cells]
            entry["scores"] = [_number(cell.encode(), path, row) for cell in scores.split(separator) if cell]
        yield row, entry


def _labelled_rows(
    path: PathLike, entries: Iterable[tuple[int, dict[str, Any]]], label_id: Callable[[Any], int | None]
) -> Iterator[tuple[int, Row]]:
    for line, entry in entries:
        for field in ("labels", "scores"):
            if not isinstance(entry.get(field), list):
                raise DataError("must be a list", path=path, line=line, field=field)
        labels, scores = entry["labels"], entry["scores"]
        if len(labels) != len(scores):
            raise DataError(f"{len(labels)} labels, but {len(scores)} scores", path=path, line=line)
        ids = [label_id(label) for label in labels]
        if None in ids:
            said = f"{json.dumps(labels[ids.index(None)])[:40]} is not a label id; give label_names to read label names"
            raise DataError(said, path=path, line=line, field="labels")
        if any(isinstance(score, bool) or not isinstance(score, (int, float)) for score in scores):
            raise DataError("must be numbers", path=path, line=line, field="scores")
        try:
            numbers = [float(score) for score in scores]
        except OverflowError as error:
            raise DataError("a score is too large", path=path, line=line, field="scores") from error
        yield line, (ids, numbers)


def _collect(path: PathLike, rows: Iterator[tuple[int, Row]]) -> Predictions:
    lines, lengths, all_ids, all_scores = array("q"), array("q"), array("q"), array("d")
    for line, (ids, scores) in rows:
        lines.append(line)
        lengths.append(len(ids))
        all_ids.extend(min(label, _BEYOND) for label in ids)
        all_scores.extend(scores)
    if not lines:
        raise DataError("the file is empty", path=path)
    per_row = np.frombuffer(lengths, np.int64)
    filled = np.arange(per_row.max()) < per_row[:, None]
    labels = np.full(filled.shape, PAD_LABEL, np.int64)
    decimals = np.full(filled.shape, PAD_SCORE, np.float64)
    labels[filled], decimals[filled] = all_ids, all_scores
    return _checked(labels, decimals, lambda row, message: DataError(message, path=path, line=lines[row]))


def _checked(labels: NDArray[Any], scores: NDArray[Any], error_at: Callable[[int, str], DataError]) -> Predictions:
    """Return the predictions if all rows are well-formed, else raise `error_at` of the first row that is not."""
    filled, in_order = labels >= 0, np.sort(labels, axis=1)
    with np.errstate(over="ignore", invalid="ignore"):
        singles = scores.astype(np.float32)
        rising = singles[:, 1:] > singles[:, :-1]
        # Probabilities may have another order than a ranking that favours rare labels.
        chances = bool(((singles >= 0) & (singles <= 1) | ~filled).all())
    repeated = (in_order[:, 1:] == in_order[:, :-1]) & (in_order[:, 1:] >= 0)
    overflown = np.isnan(singles) | (np.isinf(singles) & np.isfinite(scores))
    for wrong, message in (
        ((labels < PAD_LABEL) | (labels >= _BEYOND), "a label id is out of range"),
        (filled[:, 1:] & ~filled[:, :-1], "a label follows the -1 that ends the row"),
        (repeated, "a label is predicted twice"),
        (overflown, "a score is NaN or too large for a 32-bit float"),
        (rising & filled[:, 1:] & ~chances, _UNSORTED),
    ):
        rows = np.flatnonzero(wrong.any(axis=1))
        if rows.size:
            raise error_at(int(rows[0]), message)
    unsorted = np.flatnonzero((rising & filled[:, 1:]).any(axis=1))
    if unsorted.size:
        said = f"a later label is more probable, as in {unsorted.size:,} of {len(labels):,} rows; the order here counts"
        logger.warning("%s", error_at(int(unsorted[0]), said))
    return Predictions(labels.astype(np.int32), singles)
