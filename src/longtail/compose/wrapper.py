"""What estimators around another estimator share: the base is cloned, fitted, saved inside, and says what X is."""

from __future__ import annotations

from typing import Any

from sklearn.base import clone

from longtail.core import registry
from longtail.core.codec import encode
from longtail.core.estimator import Estimator
from longtail.core.model import part_state, restored_part
from longtail.core.run import Run
from longtail.core.state import State
from longtail.errors import DataError, NotFittedError, ParameterError


class KindOfParts:
    """`input_kind` of a wrapper: that of the estimators inside; of the class itself, which has none yet, features."""

    def __get__(self, wrapper: Any, owner: type) -> str:
        parts = [] if wrapper is None else wrapper._parts()
        return next((part.input_kind for part in parts if isinstance(part, Estimator)), "features")


class Wrapper(Estimator):
    """Base of the estimators that wrap another, `base` (default DiSMEC), which is kept fitted as `base_`."""

    input_kind = KindOfParts()  # type: ignore[assignment]

    base: Any
    base_: Estimator

    def _parts(self) -> list[Any]:
        return [self.base]

    def _check_parameters(self) -> None:
        if self.base is not None:
            check_part("base", self.base)

    def _new_base(self) -> Estimator:
        return new_part(self.base)

    def _open_checkpoint(self, run: Run) -> None:
        if run.checkpoint:
            run.checkpoint.open({"model": _without_threads(encode(self)), "data": self.fingerprint_})

    def _get_state(self) -> State:
        state = State()
        state.nest("base", part_state(self.base_, self.label_names_))
        return state

    def _set_state(self, state: State) -> None:
        self.base_ = restored_part(state.part("base"), self.label_names_)


def _without_threads(encoded: Any) -> Any:
    """Encoded parameters less `n_jobs`, at any depth: a job that goes on may do so with other threads."""
    if isinstance(encoded, list):
        return [_without_threads(item) for item in encoded]
    if isinstance(encoded, dict):
        return {key: _without_threads(value) for key, value in encoded.items() if key != "n_jobs"}
    return encoded


def check_part(name: str, part: Any) -> None:
    """An estimator of ours with parameters that it can use: said before any work, not in the middle of it."""
    if not isinstance(part, Estimator):
        raise ParameterError(
            f"{name} is {part!r}, but must be an estimator that gives ranked labels with scores, e.g. longtail.DiSMEC()"
        )
    part._check_parameters()


def new_part(part: Estimator | None) -> Estimator:
    new: Estimator = registry.estimator_class("dismec")() if part is None else clone(part)
    return new


def check_fitted_part(part: Any, n_labels: int) -> Estimator:
    """A base that is to be used as it is: fitted, and with the labels of the data."""
    if not isinstance(part, Estimator) or not hasattr(part, "n_labels_"):
        raise NotFittedError(f"prefit is set, but the base {part!r} is not fitted; fit it first, or set prefit=False")
    if part.n_labels_ != n_labels:
        raise DataError(f"Y has {n_labels} labels, but the base was fitted with {part.n_labels_}")
    return part
