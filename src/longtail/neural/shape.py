"""The shape of a network, which is not saved with the weights: the parameters of the model must still describe it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import nn

from longtail.errors import ParameterError


def check_shape(network: nn.Module, like: Callable[[], nn.Module], parameters: Sequence[str]) -> None:
    """Raise ParameterError if a network differs in shape from the one that `like` makes from the model's parameters."""
    with torch.device("meta"):  # shapes only
        wanted = like().state_dict()
    if {name: w.shape for name, w in wanted.items()} != {name: w.shape for name, w in network.state_dict().items()}:
        raise ParameterError(
            f"{' or '.join(parameters)} was changed after fit and does not match the network; "
            "set it back or fit again before saving the model"
        )
