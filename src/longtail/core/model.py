"""Save a fitted estimator as a directory, and load it."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np

from longtail.core import codec, store
from longtail.core.calibrated import ModelCalibration
from longtail.core.estimator import Estimator
from longtail.core.inputs import check_label_names
from longtail.core.registry import unknown
from longtail.core.state import State
from longtail.core.vocabulary import Vocabulary
from longtail.errors import DataError, MissingExtraError, ModelError, first_line

KIND = "model"
# The options of `longtail.data.read_dataset` that a model keeps from its training.
KEPT_READING = ("text", "fields", "labels", "separator", "ids")


def save_model(model: Estimator, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
    """Write a fitted estimator to a directory, completely or not at all.

    Parameters
    ----------
    model : Estimator
        Fitted model.
    path : str or path-like
        New or empty directory; it gets manifest.json and a safetensors file.
    overwrite : bool, default False
        Replace a model that is already there.

    Raises
    ------
    NotFittedError
        If the model is not fitted.
    OutputError
        If the directory cannot be written, or contains something else.
    """
    encoded = codec.encode(model)
    state = full_state(model)
    header = {
        "kind": KIND,
        "class": encoded["$class"],
        "params": encoded["params"],
        "label_names": model.label_names_,
        "fingerprint": model.fingerprint_,
        "training": model.training_,
        "reading": model.reading_,
        "vocabulary": None if model.vocabulary_ is None else model.vocabulary_.to_json(),
        "versions": library_versions(),
    }
    store.write(path, header, state, overwrite=overwrite)


def load_model(path: str | os.PathLike[str], *, verify: bool = True, mmap: bool = True) -> Any:
    """Load a saved estimator, ready to predict.

    Whatever the directory contains, the result is a model that predicts or an error: arrays that do not fit together
    are refused here, numbers out of range here or, with `verify=False`, when the model is first used.

    Parameters
    ----------
    path : str or path-like
        Directory of the model.
    verify : bool, default True
        Compare the array file with the checksum in the manifest, and check the numbers in the arrays, which reads the
        file once. False puts the second off until the model is first used, and leaves the first out.
    mmap : bool, default True
        Map the arrays, so that only what is used is read; the file must then stay in place, and must not be cut short
        (the system ends a process that reads beyond the end of a mapped file). False reads them into memory.

    Returns
    -------
    Estimator

    Raises
    ------
    ModelError
        If the directory is not a model, was altered, or has another format.
    """
    manifest, state = store.read(path, KIND, verify=verify, mmap=mmap)
    try:
        model = codec.decode({"$class": manifest["class"], "params": manifest["params"]})
        if not isinstance(model, Estimator):
            raise ModelError("it is not an estimator")
        restore(model, state, label_names=manifest["label_names"])
        model.fingerprint_ = str(manifest["fingerprint"])
        model.reading_ = _checked_reading(manifest.get("reading"))  # older models have none of these three
        model.training_ = manifest.get("training")
        if manifest.get("vocabulary") is not None:
            model.vocabulary_ = Vocabulary.from_json(manifest["vocabulary"])
    except MissingExtraError:
        raise
    except ModelError as error:
        raise ModelError(f"{path}: {error}") from error
    except MemoryError as error:
        raise ModelError(f"{path}: not enough memory to load the model") from error
    except Exception as error:  # whatever a constructor or torch says about values that it did not expect
        raise ModelError(
            f"{path}: the manifest and the arrays do not fit together ({type(error).__name__}: {first_line(error)}); "
            "if another version of longtail wrote them, train the model again"
        ) from error
    model._unchecked = str(path)
    if verify:
        model.check_fitted()
    return model


def _checked_reading(said: Any) -> dict[str, str] | None:
    """Return how the training data was read, or raise ModelError; anybody may have written it."""
    if said is None:
        return None
    if not isinstance(said, dict) or not all(isinstance(value, str) for value in said.values()):
        raise ModelError("how the training data was read (reading) must be texts by name")
    strange = [name for name in said if name not in KEPT_READING]
    if strange:
        raise ModelError(unknown("name in reading", strange[0], KEPT_READING))
    return said


def full_state(model: Estimator) -> State:
    """Return all that `restore` needs: what `fit` measured, and what the model learned."""
    model.check_fitted()
    state = State({"n_points": model.n_points_}, {"label_counts": model.label_counts_})
    if model.input_kind == "features":
        state.values["n_features"] = model.n_features_in_
    state.nest("learned", model._get_state())
    if model.probabilities_ is not None:
        state.nest("probabilities", model.probabilities_.to_state())
    return state


def restore(model: Estimator, state: State, *, label_names: list[str] | None = None) -> None:
    """Give an unfitted estimator the state that `full_state` returned; wrappers pass the names on to their parts."""
    model.n_points_ = state.whole("n_points", 1)
    model.label_counts_ = state.array("label_counts", np.int64, (None,))
    if not model.label_counts_.size or model.label_counts_.min() < 0 or model.label_counts_.max() > model.n_points_:
        raise ModelError(f"the array label_counts must have a number from 0 to {model.n_points_} per label")
    model.n_labels_ = int(model.label_counts_.shape[0])
    if "n_features" in state.values:
        model.n_features_in_ = state.whole("n_features")
    try:
        model.label_names_ = check_label_names(label_names, model.n_labels_)
    except DataError as error:
        raise ModelError(str(error)) from error
    model.fingerprint_ = ""
    model._set_state(state.part("learned"))
    if model.input_kind == "features" and "n_features" not in state.values:
        raise ModelError("n_features is missing")
    if "probabilities" in state.values:
        model.probabilities_ = ModelCalibration.from_state(state.part("probabilities"), model)
    model._unchecked = ""


def part_state(part: Estimator, label_names: list[str] | None) -> State:
    """Return the `full_state` of a model inside a wrapper, with its class and parameters.

    The parameters of the wrapper may have been changed after fit, so they do not say what was fitted.

    Parameters
    ----------
    part : Estimator
        Fitted model inside the wrapper.
    label_names : list of str or None
        Names that `restored_part` will be given; the state contains names only if the part has others.

    Returns
    -------
    State
    """
    state = full_state(part)
    state.values["model"] = codec.encode(part)
    if part.label_names_ != label_names:
        state.values["label_names"] = part.label_names_
    return state


def restored_part(state: State, label_names: list[str] | None) -> Any:
    """Return the fitted model that `part_state` described."""
    part = codec.decode(state.values["model"])
    if not isinstance(part, Estimator):
        raise ModelError("a part of the model is not an estimator")
    restore(part, state, label_names=state.values.get("label_names", label_names))
    return part


def library_versions() -> dict[str, str]:
    """Return the versions of Python, longtail and the libraries that results depend on."""
    found = {"python": platform.python_version()}
    for package in ("longtail", "numpy", "scipy", "scikit-learn", "numba", "torch"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return found
