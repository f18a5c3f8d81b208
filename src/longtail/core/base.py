"""Parameters by name, as scikit-learn's `BaseEstimator` has them, without importing scikit-learn.

scikit-learn's own base loads `scipy.stats`, and pandas where it is installed: more than a second before the first
prediction. Its tools (`clone`, `Pipeline`, `GridSearchCV`, ...) ask for these methods, not for the class.
"""

from __future__ import annotations

import copy
import inspect
from typing import Any, Self, TypeVar

from longtail.errors import ParameterError

Value = TypeVar("Value")


class Parameterised:
    """Base of classes whose constructor only stores its keyword arguments: the parameters."""

    @classmethod
    def _get_param_names(cls) -> list[str]:
        """Return the names of the parameters, sorted."""
        return sorted(cls._defaults())

    @classmethod
    def _defaults(cls) -> dict[str, Any]:
        parameters = list(inspect.signature(cls).parameters.values())
        return {p.name: p.default for p in parameters if p.kind is not inspect.Parameter.VAR_KEYWORD}

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters by name.

        Parameters
        ----------
        deep : bool, default True
            Also those of parameters that have parameters themselves, as `model__C`.

        Returns
        -------
        dict
        """
        found: dict[str, Any] = {}
        for name in self._get_param_names():
            value = getattr(self, name)
            if deep and hasattr(value, "get_params") and not isinstance(value, type):
                found.update((f"{name}__{key}", inner) for key, inner in value.get_params().items())
            found[name] = value
        return found

    def set_params(self, **params: Any) -> Self:
        """Set parameters by name.

        Parameters
        ----------
        **params
            New values; `model__C=2` sets the parameter C of the parameter `model`.

        Returns
        -------
        self

        Raises
        ------
        ParameterError
            If there is no parameter of that name.
        """
        known = self._get_param_names()
        inner: dict[str, dict[str, Any]] = {}
        for key, value in params.items():
            name, nested, rest = key.partition("__")
            if name not in known:
                raise ParameterError(f"{type(self).__name__} has no parameter {name!r}; it has {', '.join(known)}")
            if nested:
                inner.setdefault(name, {})[rest] = value
            else:
                setattr(self, name, value)
        for name, values in inner.items():  # after `name` itself, which may have been set in the same call
            getattr(self, name).set_params(**values)
        return self

    def __repr__(self) -> str:
        defaults = self._defaults()
        changed = {n: v for n, v in self.get_params(deep=False).items() if repr(v) != repr(defaults[n])}
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in changed.items())})"

    def __sklearn_tags__(self) -> Any:
        """Return what scikit-learn's tools ask about an estimator."""
        from sklearn.utils import InputTags, Tags, TargetTags

        return Tags(estimator_type=None, target_tags=TargetTags(required=False), input_tags=InputTags())


def clone(value: Value) -> Value:
    """Return an unfitted copy with the same parameters, as `sklearn.base.clone` does; other values are copied."""
    if isinstance(value, list):
        return [clone(item) for item in value]  # type: ignore[return-value]
    if not hasattr(value, "get_params") or isinstance(value, type):
        return copy.deepcopy(value)
    owner: Any = value
    parameters = owner.get_params(deep=False)
    return type(value)(**{name: clone(inner) for name, inner in parameters.items()})
