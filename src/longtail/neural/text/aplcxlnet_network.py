"""Adaptive probabilistic label clusters over an encoder (Ye et al., ICML 2020): frequent labels get wide layers."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from longtail.neural.device_csr import Rows
from longtail.neural.losses import LabelWeights, Loss, Positives
from longtail.neural.plan import TrainingPlan
from longtail.neural.text.batches import Batch
from longtail.neural.text.encoder import TextEncoder
from longtail.neural.text.encoder_network import EncoderNetwork
from longtail.neural.text.steady_norm import SteadyLayerNorm

Tensor = torch.Tensor


class AdaptiveClusters(nn.Module):
    """Log-probabilities of labels that are numbered by decreasing frequency and split at `cuts`.

    The head scores the labels before the first cut and one node per tail. Tail i = 1, 2, ... is a linear layer to
    width / 2^i, a norm, a ReLU and a linear layer; its labels have the probability sigma(node) sigma(label).
    """

    def __init__(self, width: int, cuts: Sequence[int], prior: Tensor, node_prior: Tensor) -> None:
        super().__init__()
        self.cuts = [0, *cuts, prior.shape[0]]
        self.head = _with_bias(
            nn.Linear(width, self.cuts[1] + node_prior.shape[0]), [prior[: self.cuts[1]], node_prior]
        )
        self.tails = nn.ModuleList()
        for i, (first, end) in enumerate(pairwise(self.cuts[1:]), 1):
            small = max(width // 2**i, 1)
            last = _with_bias(nn.Linear(small, end - first), [prior[first:end]])
            self.tails.append(nn.Sequential(nn.Linear(width, small), SteadyLayerNorm(small), nn.ReLU(), last))

    def forward(self, h: Tensor) -> Tensor:
        """Return log p of all labels, (n, L)."""
        first = self.cuts[1]
        scores = F.logsigmoid(self.head(h))
        parts = [scores[:, :first]]
        for i, tail in enumerate(self.tails):
            parts.append(scores[:, first + i, None] + F.logsigmoid(tail(h)))
        return torch.cat(parts, 1)

    def loss(
        self, h: Tensor, positives: Positives, loss: Loss, weights: LabelWeights, node_weights: LabelWeights
    ) -> Tensor:
        """Return the loss of the head over all points plus that of each tail over its points (section 3.2)."""
        rows, labels = positives
        first = self.cuts[1]
        tail_of = torch.bucketize(labels, labels.new_tensor(self.cuts[1:-1]), right=True) - 1  # -1: in the head
        in_tail = tail_of >= 0
        nodes = torch.zeros(h.shape[0], len(self.tails), dtype=torch.bool, device=h.device)
        nodes[rows[in_tail], tail_of[in_tail]] = True
        node_rows, node = nodes.nonzero(as_tuple=True)
        of_head = Positives(torch.cat([rows[~in_tail], node_rows]), torch.cat([labels[~in_tail], node + first]))
        own = _joined(weights, labels[~in_tail], node_weights, node)
        total = loss(self.head(h), of_head, *own)
        for i, tail in enumerate(self.tails):
            points = nodes[:, i].nonzero()[:, 0]
            place = torch.cumsum(nodes[:, i], 0) - 1  # position of a point among those of this tail
            mine = tail_of == i
            own_positives = Positives(place[rows[mine]], labels[mine] - self.cuts[i + 1])
            part = loss(tail(h[points]), own_positives, *weights.of(labels[mine])) if points.numel() else 0.0
            total = total + part * (points.numel() / h.shape[0])
        return total


def _with_bias(linear: nn.Linear, prior: list[Tensor]) -> nn.Linear:
    with torch.no_grad():
        linear.bias.copy_(torch.cat(prior))
    return linear


def _joined(weights: LabelWeights, labels: Tensor, node_weights: LabelWeights, nodes: Tensor) -> tuple[Any, Any]:
    """Return (own, opposite) of the labels, followed by those of the nodes."""
    if weights.trivial and node_weights.trivial:
        return None, None
    own = torch.cat([weights.own[labels], node_weights.own[nodes]])
    if weights.opposite is None or node_weights.opposite is None:
        return own, None
    return own, torch.cat([weights.opposite[labels], node_weights.opposite[nodes]])


class AdaptiveNetwork(EncoderNetwork):
    """An encoder, a hidden layer, adaptive clusters; `order` is the labels by decreasing frequency."""

    order: Tensor
    place: Tensor
    # For training: the loss, the weights of labels (by frequency) and of the tails' nodes.
    loss: Loss | None = None
    weights: tuple[LabelWeights, LabelWeights] | None = None

    def __init__(
        self, encoder: TextEncoder, clusters: AdaptiveClusters, order: Tensor, *, width: int,
        hidden_learning_rate: float, **settings: Any,
    ) -> None:  # fmt: skip
        super().__init__(encoder, **settings)
        self.hidden = nn.Linear(encoder.width, width)
        self.clusters, self.hidden_learning_rate = clusters, hidden_learning_rate
        self.register_buffer("order", order, persistent=False)
        self.register_buffer("place", torch.argsort(order), persistent=False)

    def document(self, batch: Batch) -> Tensor:
        return F.dropout(self._hidden(self.encoder(batch["tokens"], batch.get("mask"))), self.dropout, self.training)

    def _hidden(self, vector: Tensor) -> Tensor:
        return torch.tanh(self.hidden(vector.float())).float()

    def training_loss(self, batch: Batch, y: Rows) -> Tensor:
        assert self.loss is not None
        assert self.weights is not None
        positives = Positives(y.row_of_each, self.place[y.columns.long()])
        return self.clusters.loss(self.document(batch), positives, self.loss, *self.weights)

    def scores(self, batch: Batch) -> Tensor:
        return self._scores_of_hidden(self.document(batch))

    def scores_of_document(self, h: Tensor) -> Tensor:
        return self._scores_of_hidden(self._hidden(h))

    def _scores_of_hidden(self, h: Tensor) -> Tensor:
        with torch.autocast(h.device.type, enabled=False):
            by_frequency: Tensor = self.clusters(h.float())
        return by_frequency[:, self.place]

    def parameter_groups(self, plan: TrainingPlan) -> list[dict[str, Any]]:
        return [
            {"params": list(self.encoder.parameters()), "lr": plan.learning_rate},
            {"params": list(self.hidden.parameters()), "lr": self.hidden_learning_rate},
            {"params": list(self.clusters.parameters()), "lr": self.head_learning_rate},
        ]
