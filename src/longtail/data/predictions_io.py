"""Predictions in files: .npz (`labels`, `scores`), .jsonl (one object a point) and .txt (`label:score label:score`)."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from longtail.core.predictions import Predictions, empty_top
from longtail.data import files
from longtail.data.jsonl import read_objects
from longtail.errors import DataError, LongtailError, OutputError

Path = str | os.PathLike[str]
Row = tuple[list[Any], list[float]]

_KNOWN = "predictions are kept as .npz, .jsonl or .txt (the last two also with .gz, .xz or .zst)"


def write_predictions(
    predictions: Predictions, path: Path, label_names: Sequence[str] | None = None, *, overwrite: bool = False
) -> None:
    """Write predictions in the format that the name asks for; scores read back as the same float32.

    label_names: used in .jsonl instead of ids; the other formats hold ids only. Rows that are shorter than k end early
    in .jsonl and .txt.
    """
    suffix = _suffix(path, OutputError)
    if suffix == ".npz":
        with files.writing(path, overwrite=overwrite) as stream:
            np.savez(stream, labels=predictions.labels, scores=predictions.scores)
        return
    if not np.isfinite(predictions.scores[predictions.labels >= 0]).all():
        raise OutputError(f"{path}: a score is infinite, which only .npz can hold")
    if label_names is not None and predictions.labels.size and predictions.labels.max() >= len(label_names):
        raise DataError(f"label {predictions.labels.max()} is predicted, but there are {len(label_names)} label names")
    with files.writing(path, overwrite=overwrite) as stream:
        for labels, scores in zip(predictions.labels, predictions.scores, strict=True):
            kept = labels >= 0
            ids, decimals = labels[kept].tolist(), pa.array(scores[kept]).cast(pa.string()).to_pylist()
            if suffix == ".txt":
                line = " ".join(f"{label}:{score}" for label, score in zip(ids, decimals, strict=True))
            else:
                names = ids if label_names is None else [label_names[i] for i in ids]
                entry = {"labels": names, "scores": [float(score) for score in decimals]}
                line = json.dumps(entry, ensure_ascii=False)
            stream.write(f"{line}\n".encode())


def read_predictions(path: Path, *, label_names: Sequence[str] | None = None) -> Predictions:
    """Predictions that `write_predictions` or another program wrote, best label first.

    label_names: needed where a .jsonl file holds names; ids follow this list, and names beyond it get ids after it.
    """
    suffix = _suffix(path, DataError)
    if suffix == ".npz":
        return _read_npz(path)
    if suffix == ".txt":
        return _collect(path, _txt_rows(path))
    return _collect(path, _jsonl_rows(path, _label_ids(label_names)))


def _suffix(path: Path, error: type[LongtailError]) -> str:
    suffix, compression = files.suffixes(path)
    if suffix not in (".npz", ".jsonl", ".txt") or (suffix == ".npz" and compression):
        raise error(f"{path}: the ending {suffix + compression!r} tells no format; {_KNOWN}")
    return suffix


def _read_npz(path: Path) -> Predictions:
    with files.reading(path) as stream:
        try:
            with np.load(stream, allow_pickle=False) as archive:
                labels, scores = archive["labels"], archive["scores"]
        except Exception as error:  # whatever a damaged archive makes zipfile, zlib and NumPy raise
            said = f"is not an archive of the arrays labels and scores, or is damaged ({error})"
            raise DataError(said, path=path) from error
    if labels.dtype.kind not in "iu" or scores.dtype.kind != "f" or labels.ndim != 2:
        said = f"labels must be whole numbers and scores floats, both (points, k); got {labels.dtype}, {scores.dtype}"
        raise DataError(said, path=path)
    if labels.size and not -1 <= labels.min() <= labels.max() <= np.iinfo(np.int32).max:
        raise DataError("a label id is out of range: ids start at 0, and -1 pads a row", path=path, field="labels")
    try:
        predictions = Predictions(labels, scores)
    except DataError as error:
        raise DataError(error.message, path=path) from error
    for row in range(len(predictions)):
        kept = predictions.labels[row] >= 0
        n_kept = int(kept.sum())
        _check_row(path, None, f"point {row}: ", predictions.labels[row, :n_kept], predictions.scores[row, :n_kept])
    return predictions


def _txt_rows(path: Path) -> Iterator[tuple[int, Row]]:
    with files.reading(path) as stream:
        for line, content in enumerate(stream, start=1):
            row: Row = ([], [])
            for token in content.split():
                label, colon, score = token.partition(b":")
                if not colon or not label.isdigit():
                    raise DataError(f"expected label:score, like 7:0.25, at {token[:40]!r}", path=path, line=line)
                row[0].append(int(label) if len(label) < 12 else 1 << 40)
                row[1].append(_number(score, path, line))
            yield line, row


def _number(text: bytes, path: Path, line: int) -> float:
    try:
        return float(text)
    except ValueError as error:
        raise DataError(f"{text[:40]!r} is not a number", path=path, line=line) from error


def _label_ids(label_names: Sequence[str] | None) -> Callable[[Any], int | None]:
    """From a label as it stands in the file to its id; None for what cannot be one."""
    ids = None if label_names is None else {name: i for i, name in enumerate(label_names)}

    def label_id(label: Any) -> int | None:
        if isinstance(label, str):
            return None if ids is None else ids.setdefault(label, len(ids))
        return label if isinstance(label, int) and not isinstance(label, bool) and label >= 0 else None

    return label_id


def _jsonl_rows(path: Path, label_id: Callable[[Any], int | None]) -> Iterator[tuple[int, Row]]:
    for line, entry in read_objects(path):
        for field in ("labels", "scores"):
            if not isinstance(entry.get(field), list):
                raise DataError("must be a list", path=path, line=line, field=field)
        labels, scores = entry["labels"], entry["scores"]
        if len(labels) != len(scores):
            raise DataError(f"{len(labels)} labels, but {len(scores)} scores", path=path, line=line)
        ids = [label_id(label) for label in labels]
        if None in ids:
            said = f"{json.dumps(labels[ids.index(None)])[:40]} is no label id; to read names, give label_names"
            raise DataError(said, path=path, line=line, field="labels")
        if any(isinstance(score, bool) or not isinstance(score, (int, float)) for score in scores):
            raise DataError("must be numbers", path=path, line=line, field="scores")
        try:
            yield line, (ids, [float(score) for score in scores])
        except OverflowError as error:
            raise DataError("a score is too large", path=path, line=line, field="scores") from error


def _collect(path: Path, rows: Iterator[tuple[int, Row]]) -> Predictions:
    kept: list[tuple[Any, Any]] = []
    for line, (ids, numbers) in rows:
        if any(label > np.iinfo(np.int32).max for label in ids):
            raise DataError("a label id is too large", path=path, line=line)
        with np.errstate(over="ignore"):
            labels, scores = np.array(ids, np.int32), np.array(numbers, np.float64).astype(np.float32)
        if not np.isfinite(scores).all():
            raise DataError("a score is not a finite 32-bit number", path=path, line=line)
        _check_row(path, line, "", labels, scores)
        kept.append((labels, scores))
    labels, scores = empty_top(len(kept), max((row[0].size for row in kept), default=0))
    for i, (row_labels, row_scores) in enumerate(kept):
        labels[i, : row_labels.size] = row_labels
        scores[i, : row_scores.size] = row_scores
    return Predictions(labels, scores)


def _check_row(path: Path, line: int | None, prefix: str, labels: Any, scores: Any) -> None:
    if (labels < 0).any():
        raise DataError(f"{prefix}a label follows the -1 that ends the row", path=path, line=line)
    if np.unique(labels).size != labels.size:
        raise DataError(f"{prefix}a label is predicted twice", path=path, line=line)
    if (scores[1:] > scores[:-1]).any():
        raise DataError(f"{prefix}scores must not rise: the best label comes first", path=path, line=line)
