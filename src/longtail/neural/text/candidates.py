"""Candidates of a point: the labels below the clusters, or nodes of a tree, that were found for it."""

from __future__ import annotations

import torch

from longtail.neural.device_csr import Rows
from longtail.neural.losses import Positives

Tensor = torch.Tensor
OUT = -1e4  # the score of what is no candidate: none to the losses, and finite


def children_of(members: Tensor, nodes: Tensor) -> tuple[Tensor, Tensor]:
    """(n, C) the children of nodes (n, K), and which of them there are; a node of -1 has none. members: (nodes, most),
    -1 pads."""
    children = members[nodes.clamp(min=0)].masked_fill((nodes < 0)[:, :, None], -1).flatten(1)
    return children.clamp(min=0), children >= 0


def noted_among(candidates: Tensor, present: Tensor, y: Rows, n_labels: int) -> Positives:
    """The noted pairs among the candidates (n, C) of which `present` says that there are any."""
    keys = torch.arange(candidates.shape[0], device=candidates.device)[:, None] * n_labels + candidates
    return Positives.of(torch.isin(keys, y.row_of_each * n_labels + y.columns.long()) & present)
