"""Linear layers with 8-bit weights, for prediction on a CPU."""

from __future__ import annotations

import copy
from typing import TypeVar

import torch
from torch import nn

Module = TypeVar("Module", bound=nn.Module)


class Int8Linear(nn.Module):
    """A linear layer with int8 weights and one scale per output.

    Inputs are converted to int8 row by row (dynamic quantisation), products are added up in int32.
    """

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        weight = linear.weight.detach().float()
        self.scales = (weight.abs().amax(1) / 127).clamp(min=1e-12)  # (outputs,)
        self.weight = (weight / self.scales[:, None]).round().to(torch.int8).T.contiguous().T  # column-major
        self.bias = None if linear.bias is None else linear.bias.detach().float()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows = x.reshape(-1, x.shape[-1]).float()
        scales = (rows.abs().amax(1, keepdim=True) / 127).clamp(min=1e-12)
        sums = torch._int_mm((rows / scales).round_().to(torch.int8), self.weight.T)
        found = sums * scales * self.scales
        return (found if self.bias is None else found + self.bias).view(*x.shape[:-1], -1)


def quantised(network: Module) -> Module:
    """Return a copy of the network with every linear layer in 8 bits.

    Label vectors that are plain parameters (X-GRank's) are not converted: label scores are compared down to the last
    digits, and they are a small part of the work.
    """
    small = copy.deepcopy(network)
    for parent in list(small.modules()):
        for name, child in list(parent.named_children()):
            if type(child) is nn.Linear:
                setattr(parent, name, Int8Linear(child))
    return small
