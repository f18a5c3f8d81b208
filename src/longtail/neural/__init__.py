"""Neural models, their shared trainer and losses, and search over label vectors. Only this room imports torch."""

from longtail.errors import MissingExtraError

try:
    import torch as _torch  # noqa: F401 - checked once here, so that every module of the room has the same message
except ImportError as error:
    raise MissingExtraError("torch", "deep", "a neural model") from error
