"""Dataset directories: memory-mapped arrays (see `longtail.core.store`) that need no parsing."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from longtail.core import store
from longtail.core.inputs import PathLike
from longtail.core.state import State
from longtail.data.dataset import Dataset
from longtail.data.texts import Texts
from longtail.errors import ModelError, first_line

KIND = "dataset"


def write_directory(dataset: Dataset, path: PathLike, *, overwrite: bool = False) -> None:
    """Write the whole dataset to the directory `path`, or nothing if writing fails."""
    state = State({"parts": [], "label_parents": dataset.label_parents})
    for name, matrix in (("Y", dataset.Y), ("X", dataset.X)):
        if matrix is not None:
            state.put_csr(name, matrix)
            state.values["parts"].append(name)
    if dataset.weights is not None:
        state.arrays["weights"] = dataset.weights
        state.values["parts"].append("weights")
    for name in ("texts", "label_names", "label_texts", "ids"):
        strings = getattr(dataset, name)
        if strings is not None:
            texts = Texts.of(strings).packed()
            state.arrays[f"{name}.bytes"], state.arrays[f"{name}.offsets"] = texts.buffer, texts.offsets
            state.values["parts"].append(name)
    header = {"kind": KIND, "n_points": dataset.n_points, "n_labels": dataset.n_labels}
    store.write(path, header, state, overwrite=overwrite)


def read_directory(path: PathLike) -> Dataset:
    """Return the dataset in the directory `path`; X, Y and texts stay in the mapped file until they are used."""
    _, state = store.read(path, KIND)
    try:
        parts = {name: _part(state, name) for name in state.values["parts"]}
        return Dataset(**parts, label_parents=state.values["label_parents"])
    except (KeyError, TypeError, ValueError, OverflowError, ModelError) as error:
        raise ModelError(f"{path}: the manifest does not match the arrays ({first_line(error)})") from error


def _part(state: State, name: str) -> Any:
    if name in ("X", "Y"):
        return _checked(state.get_csr(name, index_types=(np.int32, np.int64)))
    if name == "weights":
        return state.arrays["weights"]
    texts = Texts(state.arrays[f"{name}.bytes"], state.arrays[f"{name}.offsets"])
    return texts if name in ("texts", "ids") else list(texts)


def _checked(matrix: sparse.csr_matrix) -> sparse.csr_matrix:
    matrix.check_format(full_check=True)
    return matrix
