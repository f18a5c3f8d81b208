"""The shape of a network, which is not saved with the weights: the parameters of the model must still describe it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import nn

from longtail.core.check_arrays import Array, check_array
from longtail.errors import ModelError, ParameterError

_MOST_COMPUTED = 2**28  # numbers in tables that a network computes itself, such as positions


def check_same_shapes(like: Callable[[], nn.Module], arrays: dict[str, Array]) -> None:
    """Raise ModelError unless saved weights are those of the network that `like` makes.

    Only shapes are made for that: however large the network is that somebody describes in a manifest, memory is taken
    only for weights that the directory contains.

    Parameters
    ----------
    like : callable
        Makes the network from the parameters of the model.
    arrays : dict of str to ndarray
        The saved weights.
    """
    with torch.device("meta"):
        network = like()
    wanted = network.state_dict()
    if sum(buffer.numel() for name, buffer in network.named_buffers() if name not in wanted) > _MOST_COMPUTED:
        raise ModelError("the network has tables that are far larger than those of any known network")
    if wanted.keys() != arrays.keys():
        odd = sorted(wanted.keys() ^ arrays.keys())
        raise ModelError(f"the weights are not those of this network: {odd[0]} is missing or has no place in it")
    for name, tensor in wanted.items():
        types = (np.float32,) if tensor.is_floating_point() else (np.int64, np.bool_)
        # Single numbers are saved as arrays of one.
        check_array(name, arrays[name], types, tuple(tensor.shape) or (1,) * arrays[name].ndim)


def check_shape(network: nn.Module, like: Callable[[], nn.Module], parameters: Sequence[str]) -> None:
    """Raise ParameterError if a network differs in shape from the one that `like` makes from the model's parameters."""
    with torch.device("meta"):  # shapes only
        wanted = like().state_dict()
    if {name: w.shape for name, w in wanted.items()} != {name: w.shape for name, w in network.state_dict().items()}:
        raise ParameterError(
            f"{' or '.join(parameters)} was changed after fit and does not match the network; "
            "set it back or fit again before saving the model"
        )
