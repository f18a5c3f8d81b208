"""The shape of a network: it is not saved with the weights, the model's parameters tell it again when they are read."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import nn

from longtail.errors import ParameterError


def check_shape(network: nn.Module, like: Callable[[], nn.Module], parameters: Sequence[str]) -> None:
    """Refuse to save a network that the model's parameters, of which `like` makes another, no longer describe."""
    with torch.device("meta"):  # shapes only
        wanted = like().state_dict()
    if {name: w.shape for name, w in wanted.items()} != {name: w.shape for name, w in network.state_dict().items()}:
        raise ParameterError(
            f"{' or '.join(parameters)} was changed after fit, and the network is not of that kind; "
            "set it back, or fit again, before the model is saved"
        )
