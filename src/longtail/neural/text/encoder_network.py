"""An encoder below something that scores labels: what X-GRank and APLC-XLNet share."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import torch
import torch.nn.functional as F

from longtail.neural.plan import TrainingPlan
from longtail.neural.text.batches import Batch
from longtail.neural.text.encoder import TextEncoder
from longtail.neural.text.label_head import LabelHead
from longtail.neural.text.network import ScoringNetwork

Tensor = torch.Tensor
_STEPS = 32  # of the path along which gradients are added up


class EncoderNetwork(ScoringNetwork):
    """An encoder below something that scores labels; the encoder has a learning rate of its own."""

    def __init__(self, encoder: TextEncoder, *, pad: int, dropout: float, head_learning_rate: float) -> None:
        super().__init__()
        self.encoder, self.pad = encoder, pad
        self.dropout = dropout
        self.head_learning_rate = head_learning_rate

    def document(self, batch: Batch) -> Tensor:
        vector: Tensor = self.encoder(batch["tokens"], batch.get("mask"))
        return F.dropout(vector.float(), self.dropout, self.training)

    def parameter_groups(self, plan: TrainingPlan) -> list[dict[str, Any]]:
        sparse = [p for m in self.modules() if isinstance(m, LabelHead) for p in m.sparse_parameters()]
        encoder = list(self.encoder.parameters())
        known = {id(p) for p in [*sparse, *encoder]}
        head = [p for p in self.parameters() if id(p) not in known]
        groups: list[dict[str, Any]] = [
            {"params": encoder, "lr": plan.learning_rate},
            {"params": head, "lr": self.head_learning_rate},
        ]
        return groups + ([{"params": sparse, "lr": self.head_learning_rate, "sparse": True}] if sparse else [])

    def token_weights(self, batch: Batch, label: int) -> tuple[float, Tensor]:
        """Integrated gradients (Sundararajan et al. 2017, eq. 1) from a text of pads: they add up to what the label's
        score gained. Plain gradients would not do: the norm after the embedding makes them orthogonal to it."""
        tokens, words = batch["tokens"], self.encoder.word_vectors.detach()
        vectors, mask = words[tokens], batch.get("mask")
        empty = words[self.pad].expand_as(vectors)
        parts = (torch.arange(_STEPS, device=tokens.device) + 0.5) / _STEPS
        with torch.enable_grad():
            on_the_way = (empty + parts[:, None, None] * (vectors - empty)).requires_grad_()
            masks = None if mask is None else mask.expand(_STEPS, -1)
            scores = self.scores_of_document(self.encoder.embedded(on_the_way, masks).float())[:, label]
            (gradients,) = torch.autograd.grad(scores.sum(), on_the_way)
        return float(self.scores(batch)[0, label].detach()), (gradients.mean(0) * (vectors - empty)[0]).sum(1)

    @abstractmethod
    def scores_of_document(self, h: Tensor) -> Tensor:
        """The scores of all labels (n, L) from the encoder's vectors (n, width)."""

    def scores(self, batch: Batch) -> Tensor:
        return self.scores_of_document(self.document(batch))
