"""SciPy .npz matrices: features in `train.X.npz` (or `X.trn.npz`), labels next to it in `train.Y.npz`."""

from __future__ import annotations

import os
import time
import zipfile
from pathlib import Path
from typing import BinaryIO

import numpy as np
from scipy import sparse

from longtail.core.fingerprint import data_fingerprint
from longtail.core.inputs import PathLike
from longtail.data import files
from longtail.data.dataset import Dataset
from longtail.data.limits import COLUMNS, FIELDS, grown_too_large, largest_content
from longtail.errors import DataError, LongtailError, OutputError, first_line

_MARK = "longtail_pair"  # member that `_save` adds to both files: the fingerprint of features and labels
_ATTEMPTS = 10
_Marked = tuple[sparse.csr_matrix, str]


def labels_path(path: PathLike) -> Path:
    """Return the path of the label matrix that belongs to the feature matrix `path`."""
    path = Path(path)
    parts = path.name.split(".")
    if parts.count("X") != 1:
        said = "the name of a feature matrix must contain X once between dots, as in train.X.npz (labels: train.Y.npz)"
        raise DataError(said, path=path)
    return path.with_name(".".join("Y" if part == "X" else part for part in parts))


def read_npz(path: PathLike) -> Dataset:
    """Read features from `path` and labels from the file that `labels_path` names.

    Files that `write_npz` wrote carry the same mark; features whose labels belong to other features are refused.
    """
    beside = labels_path(path)
    if Path(path).is_file() and not beside.is_file():
        raise DataError(f"needs a label matrix in {beside.name} in the same folder, which is missing", path=path)
    (X, mark), (Y, mark_of_labels) = _load_pair(Path(path), beside)
    if X.shape[0] != Y.shape[0]:
        raise DataError(f"has labels of {Y.shape[0]} points, but {Path(path).name} has {X.shape[0]}", path=beside)
    # Labels without a mark were put there by somebody on purpose. Marked labels beside other features were not: the
    # program that wrote them was killed before it could replace the features.
    if mark_of_labels not in ("", mark):
        said = f"belongs to other labels than those in {beside.name}; write both again with the same program"
        raise DataError(said, path=path)
    return Dataset(Y=Y, X=X)


def _load_pair(path: Path, beside: Path) -> tuple[_Marked, _Marked]:
    """Return both matrices; if they do not belong together, another process may be replacing them: wait for it."""
    for attempt in range(_ATTEMPTS):
        features, labels = _load(path), _load(beside)
        if labels[1] in ("", features[1]):
            break
        time.sleep(0.02 * attempt)
    return features, labels


def _load(path: PathLike) -> _Marked:
    with files.reading(path) as stream:
        try:
            check_members(stream)
            # SciPy loads with allow_pickle=False.
            matrix = sparse.load_npz(stream)
            stream.seek(0)
            with np.load(stream, allow_pickle=False) as members:
                mark = str(members[_MARK]) if _MARK in members else ""
            if matrix.ndim != 2 or matrix.dtype.kind not in "biuf":
                raise DataError(f"must be a two-dimensional matrix of numbers, not of {matrix.dtype}", path=path)
            if max(matrix.shape) > np.iinfo(np.int32).max:
                raise DataError(f"the shape {matrix.shape} is too large", path=path)
            COLUMNS.check(matrix.shape[1], "columns", path=path)
            if matrix.format != "csr":  # rows that CSR would have to store, and the file need not
                COLUMNS.check(matrix.shape[0], "rows", path=path)
            if hasattr(matrix, "check_format"):
                matrix.check_format(full_check=True)  # SciPy's kernels trust the indices, so check them first
            # SciPy's check leaves row starts alone where the last one is 0.
            if hasattr(matrix, "indptr") and (np.diff(matrix.indptr) < 0).any():
                raise DataError("is damaged: its row starts decrease", path=path)
            return sparse.csr_matrix(matrix), mark
        except LongtailError:
            raise
        except Exception as error:  # whatever a damaged archive makes zipfile, zlib, NumPy and SciPy raise
            raise DataError(f"is not a SciPy sparse matrix, or is damaged ({first_line(error)})", path=path) from error


def check_members(stream: BinaryIO) -> None:
    """Raise DataError if an archive has too many members, or members that are a bomb; leave the stream at its start."""
    with zipfile.ZipFile(stream) as archive:
        members = archive.infolist()
        FIELDS.check(len(members), "members")
        # `zipfile` never reads more of a member than its header says.
        if sum(member.file_size for member in members) > largest_content(sum(m.compress_size for m in members)):
            raise grown_too_large()
    stream.seek(0)


def write_npz(dataset: Dataset, path: PathLike, *, overwrite: bool = False) -> None:
    """Write features to `path` and labels to the file that `labels_path` names; names and texts are not written.

    Both files are complete before the first one gets its name. They carry the same mark, so the reader notices if a
    crash came between the two.
    """
    if dataset.X is None:
        raise DataError(".npz files store features, but this dataset has only texts; convert them to features first")
    try:
        beside = labels_path(path)
    except DataError as error:
        raise OutputError(str(error)) from error
    mark = data_fingerprint(dataset.X, dataset.Y)
    # The inner file gets its name first: labels, which the mark protects.
    with files.writing(path, overwrite=overwrite) as features, files.writing(beside, overwrite=overwrite) as labels:
        for stream, matrix in ((features, dataset.X), (labels, dataset.Y)):
            _save(stream, matrix, mark)
            stream.flush()
            os.fsync(stream.fileno())


def _save(stream: BinaryIO, matrix: sparse.csr_matrix, mark: str) -> None:
    """Write a matrix as `scipy.sparse.save_npz` does, with the mark as one more member, which SciPy ignores."""
    np.savez_compressed(
        stream, format=np.array(b"csr"), shape=np.array(matrix.shape), data=matrix.data, indices=matrix.indices,
        indptr=matrix.indptr, longtail_pair=np.array(mark),
    )  # fmt: skip
