"""Datasets in two files that belong together by name: one holds the points, the other their labels.

- `trn_X_Xf.txt` and `trn_X_Y.txt`, features and labels of the XC repository: a header `N D` or `N L`, then a line
  `index:value index:value` per point.
- `train_texts.txt` (or `train_raw_texts.txt`) and `train_labels.txt`, as AttentionXML has them: one text per line, and
  one line of labels with spaces between them per text.

Read the first of the two; the second is looked for beside it. Both may be compressed (.gz .xz .zst), each on its own.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from longtail.core.workspace import Workspace
from longtail.data import files
from longtail.data.dataset import Dataset
from longtail.data.labels import LabelCollector
from longtail.data.texts import Texts, TextsBuilder
from longtail.errors import DataError

_FEATURES = re.compile(r"(.*_X_)Xf(\.txt)")
_TEXTS = re.compile(r"(.+?_)(?:raw_)?texts(\.txt)")


def feature_pair(path: str | os.PathLike[str]) -> Path | None:
    """Return where the labels of `..._X_Xf.txt` are; None for any other name."""
    return _partner(path, _FEATURES, "Y")


def text_pair(path: str | os.PathLike[str]) -> Path | None:
    """Return where the labels of `..._texts.txt` or `..._raw_texts.txt` are; None for any other name."""
    return _partner(path, _TEXTS, "labels")


def _partner(path: str | os.PathLike[str], pattern: re.Pattern[str], word: str) -> Path | None:
    path = Path(path)
    compression = files.suffixes(path)[1]
    match = pattern.fullmatch(path.name.removesuffix(compression))
    if match is None:
        return None
    name = f"{match[1]}{word}{match[2]}"
    places = [path.with_name(name + ending) for ending in ("", *files.COMPRESSIONS)]
    return next((place for place in places if place.is_file()), places[0])


def read_feature_pair(
    path: str | os.PathLike[str],
    *,
    n_features: int | None = None,
    n_labels: int | None = None,
    workspace: Workspace | None = None,
) -> Dataset:
    """Read `..._X_Xf.txt` and, beside it, `..._X_Y.txt`; a label with the value 0 is not a label."""
    from longtail.data.xc import read_sparse_rows  # compiles kernels; texts need none

    labels = _existing(path, feature_pair(path))
    X = read_sparse_rows(path, width=n_features, what="features", workspace=workspace)
    Y = read_sparse_rows(labels, width=n_labels, what="labels", workspace=workspace)
    _check_lengths(path, X.shape[0], labels, Y.shape[0])
    Y.eliminate_zeros()
    Y.data = np.ones_like(Y.data)
    return Dataset(Y=Y, X=X)


def read_text_pair(
    path: str | os.PathLike[str],
    *,
    label_names: Sequence[str] | None = None,
    with_labels: bool = True,
    workspace: Workspace | None = None,
) -> Dataset:
    """Read `..._texts.txt` and, beside it, `..._labels.txt`. Without labels, only the texts are read."""
    texts, collector = TextsBuilder(workspace), LabelCollector(label_names, workspace)
    n_texts = 0
    for text in _lines(path):
        texts.append(text)
        n_texts += 1
    if n_texts == 0:
        raise DataError("the file is empty", path=path)
    if with_labels:
        place = _existing(path, text_pair(path))
        n_labelled = 0
        for line in _lines(place):
            collector.add_point(line.split())
            n_labelled += 1
        _check_lengths(path, n_texts, place, n_labelled)
    else:
        for _ in range(n_texts):
            collector.add_point(())
    Y, names = collector.finish()
    return Dataset(Y=Y, texts=Texts(*texts.arrays()), label_names=names)


def _lines(path: str | os.PathLike[str]) -> Iterator[str]:
    with files.reading(path) as stream:
        for number, content in enumerate(files.lines(stream, path), start=1):
            try:
                yield content.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
            except UnicodeDecodeError as error:
                said = f"is not UTF-8 ({error.reason} at byte {error.start})"
                raise DataError(said, path=path, line=number) from error


def _existing(path: str | os.PathLike[str], partner: Path | None) -> Path:
    if partner is None or not partner.is_file():
        shown = "its labels" if partner is None else partner.name
        raise DataError(f"the labels of these points are missing: there is no {shown} beside it", path=path)
    return partner


def _check_lengths(path: str | os.PathLike[str], n_points: int, labels: Path, n_labelled: int) -> None:
    if n_points != n_labelled:
        raise DataError(f"has {n_points} points, but {labels.name} has the labels of {n_labelled}", path=path)
