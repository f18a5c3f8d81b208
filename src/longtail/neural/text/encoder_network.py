"""Base of the networks of X-GRank and APLC-XLNet: an encoder and a head that scores labels."""

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
_STEPS = 32  # of the path along which gradients are integrated


class EncoderNetwork(ScoringNetwork):
    """An encoder and a head that scores labels; the head has its own learning rate."""

    def __init__(self, encoder: TextEncoder, *, pad: int, dropout: float, head_learning_rate: float) -> None:
        super().__init__()
        self.encoder, self.pad = encoder, pad
        self.dropout = dropout
        self.head_learning_rate = head_learning_rate

    def document(self, batch: Batch) -> Tensor:
        """Return the vectors of the texts, with dropout while training, (n, width)."""
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
        """Return the score and integrated gradients (Sundararajan et al. 2017, eq. 1) from a text of pads.

        They add up to the difference between the scores of the text and of the pads. Plain gradients do not work: the
        norm after the embedding makes them orthogonal to it.
        """
        tokens, words = batch["tokens"], self.encoder.word_vectors.detach()
        vectors, mask = words[tokens], batch.get("mask")
        empty = words[self.pad].expand_as(vectors)
        parts = (torch.arange(_STEPS, device=tokens.device) + 0.5) / _STEPS
        with torch.enable_grad():
            path = (empty + parts[:, None, None] * (vectors - empty)).requires_grad_()
            masks = None if mask is None else mask.expand(_STEPS, -1)
            scores = self.scores_of_document(self.encoder.embedded(path, masks).float())[:, label]
            (gradients,) = torch.autograd.grad(scores.sum(), path)
        return float(self.scores(batch)[0, label].detach()), (gradients.mean(0) * (vectors - empty)[0]).sum(1)

    @abstractmethod
    def scores_of_document(self, h: Tensor) -> Tensor:
        """Return the scores of all labels (n, L) for the encoder's vectors (n, width)."""

    def scores(self, batch: Batch) -> Tensor:
        return self.scores_of_document(self.document(batch))
