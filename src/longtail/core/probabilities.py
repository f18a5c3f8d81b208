"""Which models have probabilities: methods that exist only for them."""

from __future__ import annotations

from collections.abc import Callable
from types import MethodType
from typing import Any


class available_if:
    """Decorator of methods that some objects of a class do not have: `hasattr` is False where `check` raises."""

    def __init__(self, check: Callable[[Any], bool]) -> None:
        self.check = check

    def __call__(self, method: Callable[..., Any]) -> available_if:
        self.method, self.__doc__ = method, method.__doc__
        return self

    def __get__(self, owner: Any, kind: type | None = None) -> Any:
        if owner is None:
            return self.method
        self.check(owner)
        return MethodType(self.method, owner)
