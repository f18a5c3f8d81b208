"""Candidates of a point: the labels of the clusters, or the children of the tree nodes, retrieved for it."""

from __future__ import annotations

import torch

from longtail.neural.device_csr import Rows
from longtail.neural.losses import Positives

Tensor = torch.Tensor


def children_of(members: Tensor, nodes: Tensor) -> tuple[Tensor, Tensor]:
    """Return the children (n, C) of nodes (n, K), and which of them exist; a node of -1 has none.

    `members` (nodes, most) are the children of each node, -1 pads.
    """
    children = members[nodes.clamp(min=0)].masked_fill((nodes < 0)[:, :, None], -1).flatten(1)
    return children.clamp(min=0), children >= 0


def observed_among(candidates: Tensor, present: Tensor, y: Rows, n_labels: int) -> Positives:
    """Return the observed pairs among the candidates (n, C) that are `present`."""
    keys = torch.arange(candidates.shape[0], device=candidates.device)[:, None] * n_labels + candidates
    return Positives.of(torch.isin(keys, y.row_of_each * n_labels + y.columns.long()) & present)
