"""Layer normalisation whose gradients do not depend on the number of CPU threads."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn


class SteadyLayerNorm(nn.LayerNorm):
    """Layer normalisation written as two operations on a CPU, torch's own on a GPU.

    On a CPU torch adds up the gradients of scale and shift thread by thread, so that their last digits depend on the
    number of threads. Written as two operations, they are added up row by row.
    """

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.is_cuda or self.weight is None:
            return super().forward(x)
        return F.layer_norm(x, self.normalized_shape, eps=self.eps) * self.weight + self.bias


def with_steady_norms(network: nn.Module) -> nn.Module:
    """Replace all layer norms of a network in place, keeping their parameters, and return the network."""
    for parent in list(network.modules()):
        for name, child in list(parent.named_children()):
            if type(child) is nn.LayerNorm and child.bias is not None:
                steady = SteadyLayerNorm(child.normalized_shape, eps=child.eps)
                steady.weight, steady.bias = child.weight, child.bias
                setattr(parent, name, steady)
    return network
