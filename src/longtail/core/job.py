"""The identity of a training job, by which a checkpoint recognises its own unfinished work."""

from __future__ import annotations

import dataclasses
from typing import Any

from longtail.core import codec
from longtail.core.base import Parameterised


def job_of(model: Parameterised) -> dict[str, Any]:
    """Return class and parameters of a model and of models inside, except what may change on resume.

    Models inside may change nothing but their number of threads: what they predicted for unfinished parts depends on
    the rest, also on parameters that only prediction reads.
    """
    return _identity(model, free={"n_jobs", *getattr(model, "free_on_resume", ())})


def _identity(value: Any, free: set[str] | None = None) -> Any:
    # Classes by module and name: what is trained need not be registered, as what is saved must be.
    if isinstance(value, Parameterised) or (dataclasses.is_dataclass(value) and not isinstance(value, type)):
        kept = {k: _identity(v) for k, v in codec.parameters(value).items() if k not in (free or {"n_jobs"})}
        return {"class": f"{type(value).__module__}:{type(value).__qualname__}", "parameters": kept}
    if isinstance(value, (list, tuple)):
        return [_identity(item) for item in value]
    if isinstance(value, dict):
        return {str(key): _identity(item) for key, item in value.items()}
    return codec.encode(value)
