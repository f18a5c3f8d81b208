"""Wrappers: the one base of every estimator that contains other estimators.

A wrapper names the parameter that holds its parts (`slot`) and fits them into `parts_`. From these two follow its
default base, what it reads, the options that `predict` passes on, how it is saved, and which part `explain` asks.
"""

from __future__ import annotations

import inspect
from typing import Any, ClassVar, Self

import numpy as np

from longtail.core import registry
from longtail.core.base import clone
from longtail.core.estimator import Estimator
from longtail.core.explanation import Explanation
from longtail.core.model import part_state, restored_part
from longtail.core.state import State
from longtail.errors import DataError, ModelError, NotFittedError, ParameterError

DEFAULT_BASE = "dismec"


class KindOfParts:
    """The `input_kind` of a wrapper: that of the estimators inside, or "features" for the class itself.

    Once fitted it is that of the fitted parts: the parameter may have been changed since.
    """

    def __get__(self, wrapper: Any, owner: type) -> str:
        if wrapper is None:
            return "features"
        return kind_of(vars(wrapper).get("parts_") or wrapper.parts)


def kind_of(parts: list[Any]) -> str:
    """Return what these estimators read."""
    return next((part.input_kind for part in parts if isinstance(part, Estimator)), "features")


class Wrapper(Estimator):
    """Base of the estimators that contain others.

    A subclass has a parameter, named by `slot`, for the part or the list of parts, and its `_fit` sets `parts_`.
    `predict` passes on options that the wrapper does not have, such as `beam`, to the parts that take them.

    Attributes
    ----------
    parts_ : list of Estimator
        Fitted parts, in the order of `parts`.
    base_ : Estimator
        The first fitted part, for wrappers with one.
    """

    slot: ClassVar[str] = "base"  # the parameter that holds the part, or the list of parts
    input_kind = KindOfParts()  # type: ignore[assignment]

    parts_: list[Any]

    @property
    def parts(self) -> list[Any]:
        """The unfitted parts, as the parameter has them; None stands for the default base."""
        return [getattr(self, self.slot)]

    @property
    def trains_in_parts(self) -> bool:  # type: ignore[override]
        """Whether all the models inside train in independent parts."""
        return bool(self.parts) and all(new_part(part).trains_in_parts for part in self.parts)

    @property
    def base_(self) -> Any:
        """The fitted part, for wrappers with one."""
        return self.parts_[0]

    def with_default_parts(self) -> Self:
        """Set the default base if none was given, so that its parameters can be set by name; return self."""
        if getattr(self, self.slot) is None:
            self.set_params(**{self.slot: new_part(None)})
        return self

    def check_parameters(self) -> None:
        for part in self.parts:
            if part is not None:
                check_part(self.slot, part)

    def options(self) -> set[str]:
        parts = vars(self).get("parts_") or [part for part in self.parts if isinstance(part, Estimator)]
        return super().options().union(*(part.options() for part in parts))

    def adjusted(self, **options: Any) -> Self:
        view = super().adjusted(**options)
        rest = {name: value for name, value in options.items() if name not in self.adjustable}
        taken = [{name: rest[name] for name in rest.keys() & part.options()} for part in self.parts_]
        view.parts_ = [part.adjusted(**own) for part, own in zip(self.parts_, taken, strict=True)]
        return view

    def _explain(self, X: Any, label: int) -> Explanation:
        if len(self.parts_) > 1:
            raise ParameterError(
                f"{type(self).__name__} contains {len(self.parts_)} models, and cannot explain for all; "
                "ask one of the models in its parts_ to explain"
            )
        explained: Explanation = self.parts_[0]._explain(X, label)
        return explained

    def _kind_to_fit(self) -> str:
        follows_parts = isinstance(inspect.getattr_static(type(self), "input_kind"), KindOfParts)
        return kind_of(self.parts) if follows_parts else self.input_kind

    def _unreadable(self, X: Any) -> None:
        return None  # its parts decide, each for itself

    def _new_part(self) -> Estimator:
        return new_part(self.parts[0])

    def _part_names(self, number: int, n_labels: int) -> list[str] | None:
        """Return the label names that a part is trained with; a part may know only some of the labels."""
        return self.label_names_

    def _get_state(self) -> State:
        # The fitted parts, not the parameter, which may have been changed after fit.
        state = State({"n_parts": len(self.parts_)})
        for i, part in enumerate(self.parts_):
            state.nest(f"part{i}", part_state(part, self._part_names(i, part.n_labels_)))
        return state

    def _set_state(self, state: State) -> None:
        held = [state.part(f"part{i}") for i in range(state.whole("n_parts", 1))]
        sizes = [part.array("label_counts", np.int64, (None,)).size for part in held]
        self.parts_ = [restored_part(part, self._part_names(i, sizes[i])) for i, part in enumerate(held)]
        self._check_parts()

    def _check_parts(self) -> None:
        """Raise ModelError unless the loaded parts fit this model."""
        for part in self.parts_:
            self._check_part(part, self.n_labels_)

    def _check_part(self, part: Estimator, *n_labels: int) -> None:
        if part.n_labels_ not in n_labels:
            raise ModelError(f"a model inside has {part.n_labels_} labels, but must have {n_labels[0]}")
        if part.input_kind != self.input_kind:
            raise ModelError(f"a model inside reads {part.input_kind}, but this one reads {self.input_kind}")
        if part.input_kind == "features" and part.n_features_in_ != getattr(self, "n_features_in_", None):
            raise ModelError(f"a model inside reads {part.n_features_in_} features, which is not what this one reads")

    def _check_learned(self) -> None:
        for part in self.parts_:
            part.check_fitted()


def new_part(part: Estimator | None) -> Estimator:
    """Return an unfitted copy of a part, or the default base for None."""
    new: Estimator = registry.estimator_class(DEFAULT_BASE)() if part is None else clone(part)
    return new


def check_part(name: str, part: Any) -> None:
    """Raise ParameterError unless a part is an estimator whose parameters can be used.

    Parameters
    ----------
    name : str
        Name of the parameter, for messages.
    part : Estimator
        Unfitted part.
    """
    if not isinstance(part, Estimator):
        raise ParameterError(f"{name} is {part!r}, but must be a longtail estimator, e.g. longtail.DiSMEC()")
    part.check_parameters()


def check_fitted_part(part: Any, n_labels: int) -> Estimator:
    """Return a base that was fitted before (`prefit=True`), if it can be used as it is.

    Parameters
    ----------
    part : Estimator
        Fitted base.
    n_labels : int
        Number of labels of the data.

    Returns
    -------
    Estimator
        The base itself.

    Raises
    ------
    NotFittedError
        If it is not a fitted estimator.
    DataError
        If it was fitted with another number of labels.
    """
    if not isinstance(part, Estimator) or not hasattr(part, "n_labels_"):
        raise NotFittedError(f"prefit is set, but the base {part!r} is not fitted; fit it first, or set prefit=False")
    if part.n_labels_ != n_labels:
        raise DataError(f"Y has {n_labels} labels, but the base was fitted with {part.n_labels_}")
    return part
