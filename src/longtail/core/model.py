"""Save a fitted estimator as a directory, and load it."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np

from longtail.core import codec, store
from longtail.core.estimator import Estimator
from longtail.core.state import State
from longtail.core.vocabulary import Vocabulary
from longtail.errors import ModelError, first_line

KIND = "model"


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
        "reading": model.reading_,
        "vocabulary": None if model.vocabulary_ is None else model.vocabulary_.to_json(),
        "versions": library_versions(),
    }
    store.write(path, header, state, overwrite=overwrite)


def load_model(path: str | os.PathLike[str], *, verify: bool = True) -> Any:
    """Load a saved estimator, ready to predict.

    Parameters
    ----------
    path : str or path-like
        Directory of the model; its arrays are memory-mapped, so it must stay in place.
    verify : bool, default True
        Compare the array file with the checksum in the manifest, which reads the file once.

    Returns
    -------
    Estimator

    Raises
    ------
    ModelError
        If the directory is not a model, was altered, or has another format.
    """
    manifest, state = store.read(path, KIND, verify=verify)
    try:
        model = codec.decode({"$class": manifest["class"], "params": manifest["params"]})
        if not isinstance(model, Estimator):
            raise ModelError(f"{manifest['class']} is not an estimator")
        restore(model, state, label_names=manifest["label_names"])
        model.fingerprint_ = manifest["fingerprint"]
        model.reading_ = manifest.get("reading")  # older models have neither
        if manifest.get("vocabulary") is not None:
            model.vocabulary_ = Vocabulary.from_json(manifest["vocabulary"])
    except ModelError as error:
        raise ModelError(f"{path}: {error}") from error
    except (KeyError, TypeError, ValueError, RuntimeError) as error:  # the last: torch, if weights do not fit
        raise ModelError(
            f"{path}: the manifest and the arrays do not fit together ({type(error).__name__}: {first_line(error)}); "
            "if another version of longtail wrote them, train the model again"
        ) from error
    return model


def full_state(model: Estimator) -> State:
    """Return all that `restore` needs: what `fit` measured, and what the model learned."""
    model.check_fitted()
    state = State({"n_points": model.n_points_}, {"label_counts": model.label_counts_})
    if model.input_kind == "features":
        state.values["n_features"] = model.n_features_in_
    state.nest("learned", model._get_state())
    return state


def restore(model: Estimator, state: State, *, label_names: list[str] | None = None) -> None:
    """Give an unfitted estimator the state that `full_state` returned; wrappers pass the names on to their parts."""
    model.n_points_ = int(state.values["n_points"])
    model.label_counts_ = np.asarray(state.arrays["label_counts"])
    model.n_labels_ = int(model.label_counts_.shape[0])
    if "n_features" in state.values:
        model.n_features_in_ = int(state.values["n_features"])
    model.label_names_, model.fingerprint_ = label_names, ""
    model._set_state(state.part("learned"))


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
        raise ModelError(f"a part of the model, {state.values['model']!r}, is not an estimator")
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
