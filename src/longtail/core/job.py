"""The identity of a training job, by which a checkpoint recognises its own unfinished work."""

from __future__ import annotations

from typing import Any

from sklearn.base import BaseEstimator

from longtail.core import codec


def job_of(model: BaseEstimator) -> dict[str, Any]:
    """Return class and parameters of a model and of models inside, except what may change on resume."""
    free = {"n_jobs", *getattr(model, "free_on_resume", ())}
    kept = {name: value for name, value in codec.parameters(model).items() if name not in free}
    cls = type(model)  # not by its registered name: whoever is trained need not be saved
    return {"model": f"{cls.__module__}:{cls.__qualname__}", "parameters": _identity(kept)}


def _identity(value: Any) -> Any:
    if isinstance(value, BaseEstimator):
        return job_of(value)
    if isinstance(value, (list, tuple)):
        return [_identity(item) for item in value]
    if isinstance(value, dict):
        return {str(key): _identity(item) for key, item in value.items()}
    return codec.encode(value)
