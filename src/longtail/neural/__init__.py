"""Neural models, the one trainer that they share, their losses, search among label vectors. torch lives only here."""

from longtail.errors import MissingExtraError

try:
    import torch as _torch  # noqa: F401 - said here once, in our words, for every module of the room
except ImportError as error:
    raise MissingExtraError("torch", "deep", "a neural model") from error
