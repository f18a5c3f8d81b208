"""SciPy .npz matrices: features in `train.X.npz` (or `X.trn.npz`), labels next to it in `train.Y.npz`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from scipy import sparse

from longtail.core.inputs import PathLike
from longtail.data import files
from longtail.data.dataset import Dataset
from longtail.errors import DataError, LongtailError, OutputError


def labels_path(path: PathLike) -> Path:
    """Return the path of the label matrix that belongs to the feature matrix `path`."""
    path = Path(path)
    parts = path.name.split(".")
    if parts.count("X") != 1:
        said = "the name of a feature matrix must contain X once between dots, as in train.X.npz (labels: train.Y.npz)"
        raise DataError(said, path=path)
    return path.with_name(".".join("Y" if part == "X" else part for part in parts))


def read_npz(path: PathLike) -> Dataset:
    """Read features from `path` and labels from the file that `labels_path` names."""
    beside = labels_path(path)
    if Path(path).is_file() and not beside.is_file():
        raise DataError(f"needs a label matrix in {beside.name} in the same folder, which is missing", path=path)
    X, Y = _load(path), _load(beside)
    if X.shape[0] != Y.shape[0]:
        raise DataError(f"has labels of {Y.shape[0]} points, but {Path(path).name} has {X.shape[0]}", path=beside)
    return Dataset(Y=Y, X=X)


def _load(path: PathLike) -> sparse.csr_matrix:
    with files.reading(path) as stream:
        try:
            # SciPy loads with allow_pickle=False.
            matrix = sparse.load_npz(stream)
            if matrix.ndim != 2 or matrix.dtype.kind not in "biuf":
                raise DataError(f"must be a two-dimensional matrix of numbers, not of {matrix.dtype}", path=path)
            if max(matrix.shape) > np.iinfo(np.int32).max:
                raise DataError(f"the shape {matrix.shape} is too large", path=path)
            if hasattr(matrix, "check_format"):
                matrix.check_format(full_check=True)  # SciPy's kernels trust the indices, so check them first
            return sparse.csr_matrix(matrix)
        except LongtailError:
            raise
        except Exception as error:  # whatever a damaged archive makes zipfile, zlib, NumPy and SciPy raise
            raise DataError(f"is not a SciPy sparse matrix, or is damaged ({error})", path=path) from error


def write_npz(dataset: Dataset, path: PathLike, *, overwrite: bool = False) -> None:
    """Write features to `path` and labels to the file that `labels_path` names; names and texts are not written.

    Labels are written first, so a crash in between leaves no new features without their labels.
    """
    if dataset.X is None:
        raise DataError(".npz files store features, but this dataset has only texts; convert them to features first")
    try:
        beside = labels_path(path)
    except DataError as error:
        raise OutputError(str(error)) from error
    files.check_free(path, overwrite=overwrite)
    for place, matrix in ((beside, dataset.Y), (path, dataset.X)):
        with files.writing(place, overwrite=overwrite) as stream:
            sparse.save_npz(stream, matrix)
