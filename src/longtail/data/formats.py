"""`read_dataset` and `write_dataset`: the file name chooses the format."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from longtail.core.inputs import PathLike
from longtail.core.interrupts import plain_interrupts
from longtail.core.urls import is_url
from longtail.core.workspace import Workspace
from longtail.data import files
from longtail.data.dataset import Dataset
from longtail.data.labels import SEPARATOR, distinct
from longtail.data.pairs import feature_pair, read_feature_pair, read_text_pair, text_pair
from longtail.data.reading import Reading
from longtail.errors import DataError, OutputError, ParameterError

logger = logging.getLogger(__name__)

_XC, _JSONL, _CSV, _TSV, _PARQUET, _NPZ = (
    (".txt", ".svm", ".xc"),
    (".jsonl", ".json"),
    ".csv",
    ".tsv",
    ".parquet",
    ".npz",
)
_SUPPORTED = (
    "a dataset directory, an XC file (.txt, .svm, .xc), JSON (.jsonl, .json), a table (.csv, .tsv, .parquet) "
    "or SciPy matrices (.npz); all but .parquet and .npz may be compressed (.gz, .xz, .zst)"
)


@plain_interrupts()
def read_dataset(
    source: PathLike | Any,
    *,
    text: str | Sequence[str] = "text",
    labels: str | None = "labels",
    label_texts: str | None = None,
    relevance: str | None = "weight",
    ids: str | None = None,
    weights: str | None = None,
    fields: str = "joined",
    separator: str = SEPARATOR,
    delimiter: str | None = None,
    encoding: str | None = None,
    label_names: Sequence[str] | None = None,
    n_features: int | None = None,
    n_labels: int | None = None,
    workspace: PathLike | None = None,
) -> Dataset:
    """Read a dataset from a file, several files, standard input, or a table in memory.

    The file name chooses the format.

    Parameters
    ----------
    source : str, path-like, DataFrame, pyarrow table, Hugging Face dataset or list of dict
        XC file (.txt, .svm, .xc), JSON lines or a JSON array (.jsonl, .json), table (.csv, .tsv, .parquet), SciPy
        matrices (.npz), dataset directory, or folder that a Hugging Face dataset was saved to. All files but .parquet
        and .npz may be compressed (.gz, .xz, .zst). Another folder, or a pattern such as `part-*.parquet`, stands for
        the files in it, "-" for standard input. An address such as s3://bucket/data.jsonl (s3, gs, hdfs, abfs; others
        with the extra `remote`) is copied first. Two files that belong together are read by the name of the first:
        `trn_X_Xf.txt` (labels in `trn_X_Y.txt`) and `train_texts.txt` or `train_raw_texts.txt` (labels in
        `train_labels.txt`).
    text : str or sequence of str, default "text"
        Field or column with the text. Several, as a list or separated by commas ("title,abstract"), are joined. A path
        leads into objects: `title.en`, or `paragraphs[].text` for each object of a list.
    labels : str or None, default "labels"
        Field or column with the labels, or a path such as `subjects[].uri`. None reads texts without labels.
    label_texts : str or None, default None
        Field, column or path of the texts of these labels, in the same order, e.g. `subjects[].label`.
    relevance : str or None, default "weight"
        Where labels are objects: the key of their relevance, from 0 to 1, which is kept in Y, or its path, e.g.
        `subjects[].weight`; objects without it have relevance 1. None ignores it.
    ids : str or None, default None
        Field, column or path of the ids of points.
    weights : str or None, default None
        Field, column or path of the weights of points.
    fields : {"joined", "separate"}, default "joined"
        How several text fields become one text: joined by a space, or with the field before each word
        (`title_word`), so that a word makes different features in different fields.
    separator : str, default ";"
        Separates the labels in a cell of a table.
    delimiter : str or None, default None
        Character between the cells of a CSV file; None finds it by looking.
    encoding : str or None, default None
        Encoding of JSON and CSV files; None means UTF-8, or what a byte order mark says.
    label_names : sequence of str, optional
        Label ids follow this list. Other labels get the ids after it, so Y may become wider than the list. In files
        without label names (XC, .npz), ids are positions in this list.
    n_features : int, optional
        Width of X, for XC and .npz files, which may not show it. Wider data is an error.
    n_labels : int, optional
        Width of Y, likewise.
    workspace : str or path-like, optional
        Folder on a local disk for files without a name that hold what is read: then it is mapped, and memory does not
        grow with the data. By default it is in memory.

    Returns
    -------
    Dataset

    Raises
    ------
    DataError
        If the file is missing, damaged or malformed; the message names file, line and field.
    ParameterError
        If an option cannot be used.
    OutputError
        If the workspace cannot be written.
    """
    reading = Reading(
        text, fields, labels, label_texts, relevance, ids, weights, separator, delimiter, encoding, Workspace(workspace)
    )
    widths = (n_features, n_labels)
    if not isinstance(source, (str, os.PathLike)):
        from longtail.data.frames import read_frame

        _refuse_widths("a table", widths)
        return read_frame(source, reading, label_names=label_names)
    from longtail.data import shards

    if os.fspath(source) == shards.STDIN:
        with shards.standard_input() as path:
            try:
                return _read_one(path, reading, label_names, widths)
            except DataError as error:
                raise DataError(error.message, path=shards.STDIN_NAME, line=error.line, field=error.field) from error
    if is_url(source):
        from longtail.data.remote import local_copy

        with local_copy(os.fspath(source)) as path:
            return _read_local(path, reading, label_names, widths)
    return _read_local(source, reading, label_names, widths)


def _read_local(
    source: PathLike, reading: Reading, label_names: Sequence[str] | None, widths: tuple[int | None, int | None]
) -> Dataset:
    from longtail.data import shards, stacking

    found = shards.find_shards(source)
    if found is None:
        return _read_one(source, reading, label_names, widths)
    parts = ((path, _read_one(path, reading, label_names, widths)) for path in found)
    return stacking.concatenate(parts, label_names, reading.workspace)


def _read_one(
    path: PathLike, reading: Reading, label_names: Sequence[str] | None, widths: tuple[int | None, int | None]
) -> Dataset:
    if not Path(path).exists():
        raise DataError("does not exist", path=path)
    try:
        if Path(path).is_dir():
            from longtail.data.shards import is_saved_frame

            if is_saved_frame(Path(path)):
                from longtail.data.frames import read_saved_frame

                _refuse_widths(path, widths)
                return read_saved_frame(Path(path), reading, label_names=label_names)
            return _read_matrices(path, label_names, *widths, reading.workspace)
        if _format(path) in (*_XC, _NPZ) and text_pair(path) is None:
            return _read_matrices(path, label_names, *widths, reading.workspace)
        _refuse_widths(path, widths)
        return _read_texts(path, reading, label_names)
    except DataError as error:
        if error.path is not None:
            raise
        raise DataError(error.message, path=path, line=error.line, field=error.field) from error


def _refuse_widths(what: PathLike, widths: tuple[int | None, int | None]) -> None:
    if widths != (None, None):
        raise ParameterError(f"{what}: n_features and n_labels apply to features, but this has texts")


def _format(path: PathLike) -> str:
    suffix, compression = files.suffixes(path)
    known = (*_XC, *_JSONL, _CSV, _TSV, _PARQUET, _NPZ)
    if suffix not in known or (compression and suffix in (_PARQUET, _NPZ)):
        raise DataError(f"unsupported extension {suffix + compression!r}; use {_SUPPORTED}", path=path)
    return suffix


def _read_matrices(
    path: PathLike,
    label_names: Sequence[str] | None,
    n_features: int | None,
    n_labels: int | None,
    workspace: Workspace,
) -> Dataset:
    if Path(path).is_dir():
        from longtail.data.directory import read_directory

        dataset = read_directory(path)
    elif _format(path) == _NPZ:
        from longtail.data.npz import read_npz

        dataset = read_npz(path)
    elif feature_pair(path) is not None:
        pair = read_feature_pair(path, n_features=n_features, n_labels=n_labels, workspace=workspace)
        return _follow_names(pair, label_names)
    else:
        from longtail.data.xc import read_xc

        found = read_xc(path, n_features=n_features, n_labels=n_labels, workspace=workspace)
        return _follow_names(found, label_names)
    return _follow_names(_widened(dataset, n_features, n_labels), label_names)


def _read_texts(path: PathLike, reading: Reading, label_names: Sequence[str] | None) -> Dataset:
    if text_pair(path) is not None:
        return read_text_pair(
            path, label_names=label_names, with_labels=reading.labels is not None, workspace=reading.workspace
        )
    suffix = _format(path)
    if suffix in _JSONL:
        from longtail.data.jsonl import read_jsonl

        return read_jsonl(path, reading, label_names=label_names)
    from longtail.data.tables import read_csv, read_parquet

    if suffix == _PARQUET:
        return read_parquet(path, reading, label_names=label_names)
    return read_csv(path, reading, usual="\t" if suffix == _TSV else ",", label_names=label_names)


def _widened(dataset: Dataset, n_features: int | None, n_labels: int | None) -> Dataset:
    X, Y = dataset.X, dataset.Y
    if n_features is not None and X is not None:
        X = _resized(X, n_features, "features")
    if n_labels is not None and n_labels != dataset.n_labels:
        if dataset.label_names is not None:
            raise DataError(f"has {dataset.n_labels} named labels, but n_labels is {n_labels}")
        Y = _resized(Y, n_labels, "labels")
    return replace(dataset, X=X, Y=Y)


def _resized(matrix: sparse.csr_matrix, width: int, what: str) -> sparse.csr_matrix:
    if width < matrix.shape[1]:
        raise DataError(f"has {matrix.shape[1]} {what}, but {width} are expected")
    return sparse.csr_matrix((matrix.data, matrix.indices, matrix.indptr), shape=(matrix.shape[0], width), copy=False)


def _follow_names(dataset: Dataset, label_names: Sequence[str] | None) -> Dataset:
    """Renumber the labels by `label_names`; labels that are not in the list come after it."""
    if label_names is None:
        return dataset
    given = distinct(label_names)
    if dataset.label_names is None:
        names = given + [str(label) for label in range(len(given), dataset.n_labels)]
        return replace(dataset, Y=_resized(dataset.Y, len(names), "labels"), label_names=names)
    position = {name: i for i, name in enumerate(given)}
    for name in sorted(set(dataset.label_names) - set(given)):
        position[name] = len(position)
    new_ids = np.array([position[name] for name in dataset.label_names], dtype=np.int32)
    Y = sparse.csr_matrix(
        (dataset.Y.data, new_ids[dataset.Y.indices], dataset.Y.indptr), shape=(dataset.n_points, len(position))
    )
    texts = None
    if dataset.label_texts is not None:
        text_of = dict(zip(dataset.label_names, dataset.label_texts, strict=True))
        texts = [text_of.get(name, name) for name in position]
    return replace(dataset, Y=Y, label_names=list(position), label_texts=texts)


def write_dataset(dataset: Dataset, path: PathLike, *, overwrite: bool = False) -> None:
    """Write a dataset; the file name chooses the format.

    Parameters
    ----------
    dataset : Dataset
        Data to write.
    path : str or path-like
        File with one of the extensions that `read_dataset` reads; without an extension, a dataset directory.
    overwrite : bool, default False
        Replace an existing file or dataset directory, once the new one is complete.

    Raises
    ------
    OutputError
        If `path` exists or cannot be written.
    DataError
        If the format cannot store the dataset.

    Notes
    -----
    A dataset directory keeps everything. XC and .npz files keep features and label ids, JSON lines and tables keep
    texts and label names; a warning names what is lost.
    """
    suffix = "" if Path(path).is_dir() or not Path(path).suffix else _format(path)
    if feature_pair(path) is not None or text_pair(path) is not None:
        raise OutputError(f"{path}: this name belongs to a pair of files, which are read only; choose another name")
    if suffix:
        _warn_of_losses(dataset, path, ("texts", "label_names") if suffix in (*_XC, _NPZ) else ("X",))
    if suffix == "":
        from longtail.data.directory import write_directory

        write_directory(dataset, path, overwrite=overwrite)
    elif suffix == _NPZ:
        from longtail.data.npz import write_npz

        write_npz(dataset, path, overwrite=overwrite)
    elif suffix in _XC:
        from longtail.data.xc import write_xc

        write_xc(dataset, path, overwrite=overwrite)
    elif suffix in _JSONL:
        from longtail.data.jsonl import write_jsonl

        write_jsonl(dataset, path, overwrite=overwrite)
    else:
        from longtail.data.tables import write_csv, write_parquet

        if suffix == _PARQUET:
            write_parquet(dataset, path, overwrite=overwrite)
        else:
            write_csv(dataset, path, delimiter="\t" if suffix == _TSV else ",", overwrite=overwrite)


def _warn_of_losses(dataset: Dataset, path: PathLike, without: Sequence[str]) -> None:
    shown = {"X": "features", "texts": "texts", "label_names": "label names"}
    lost = [shown[name] for name in without if getattr(dataset, name) is not None]
    if lost:
        logger.warning(
            "%s cannot store the %s, which are left out; a dataset directory (a path without an extension) can",
            os.fspath(path), " and ".join(lost),
        )  # fmt: skip
