"""The networks of X-GRank: all labels at once, or label clusters first and then the labels of the best clusters."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

from longtail.neural.device_csr import Rows
from longtail.neural.losses import MASKED_SCORE, LabelWeights, Loss, Positives
from longtail.neural.text.batches import Batch
from longtail.neural.text.candidates import children_of, observed_among
from longtail.neural.text.encoder import TextEncoder
from longtail.neural.text.encoder_network import EncoderNetwork
from longtail.neural.text.label_head import LabelHead
from longtail.neural.text.network import Objective

Tensor = torch.Tensor


class FlatNetwork(EncoderNetwork):
    """A network that scores every label."""

    objective: Objective | None = None  # for training

    def __init__(self, encoder: TextEncoder, head: LabelHead, **settings: Any) -> None:
        super().__init__(encoder, **settings)
        self.head = head

    def scores_of_document(self, h: Tensor) -> Tensor:
        # In float32: bf16 has too few digits to rank thousands of labels.
        with torch.autocast(h.device.type, enabled=False):
            scores: Tensor = self.head(h.float(), self.encoder.word_vectors)
        return scores

    def training_loss(self, batch: Batch, y: Rows) -> Tensor:
        assert self.objective is not None
        return self.objective(self.scores(batch), y)


class ClusterNetwork(EncoderNetwork):
    """A network that scores clusters, then the labels of the best `n_retrieved` (X-GRank, sections III-D and III-E).

    `clusters` is the head of the clusters; `members` (clusters, largest) are the labels of each, -1 pads.
    """

    members: Tensor
    cluster_of: Tensor
    # For training: the loss, the weights of clusters and of labels, and the weight of the ranking loss.
    loss: Loss | None = None
    weights: tuple[LabelWeights, LabelWeights] | None = None
    lambda_: float = 0.0

    def __init__(
        self, encoder: TextEncoder, clusters: LabelHead, head: LabelHead, members: Tensor, *, n_retrieved: int,
        **settings: Any,
    ) -> None:  # fmt: skip
        super().__init__(encoder, **settings)
        self.clusters, self.head = clusters, head
        self.n_retrieved = n_retrieved
        device = members.device  # the weights may be on the meta device, when only the shape of the network is needed
        cluster_of = torch.zeros(head.bias.shape[0], dtype=torch.long, device=device)
        own = torch.arange(members.shape[0], device=device)[:, None].expand_as(members)
        cluster_of[members[members >= 0]] = own[members >= 0]
        self.register_buffer("members", members, persistent=False)
        self.register_buffer("cluster_of", cluster_of, persistent=False)

    def begin_step(self, share: float) -> None:
        self.lambda_ = 0.5 * share  # 0.5 e/E, step by step

    def training_loss(self, batch: Batch, y: Rows) -> Tensor:
        assert self.loss is not None
        assert self.weights is not None
        h, words = self.document(batch), self.encoder.word_vectors
        observed = torch.zeros(h.shape[0], self.members.shape[0], dtype=torch.bool, device=h.device)
        observed[y.row_of_each, self.cluster_of[y.columns.long()]] = True
        cluster_scores = self.clusters(h, words)
        positive = Positives.of(observed)
        retrieve = self.loss(cluster_scores, positive, *self.weights[0].of(positive.columns))
        # In training, clusters with observed labels are always candidates; the best others fill up the list.
        chosen = (cluster_scores.detach() + observed * 2e4).topk(self._n_best()).indices
        candidates, present = children_of(self.members, chosen)
        scores = self.head(h, words, candidates).masked_fill(~present, MASKED_SCORE)
        positive = observed_among(candidates, present, y, self.cluster_of.shape[0])
        rank = self.loss(scores, positive, *self.weights[1].of(candidates[positive]))
        return (1 - self.lambda_) * retrieve + self.lambda_ * rank  # eq. 9

    def _n_best(self) -> int:
        return min(self.n_retrieved, self.members.shape[0])

    def top(self, batch: Batch, k: int, among: Tensor | None = None) -> tuple[Tensor, Tensor]:
        h, words = self.document(batch), self.encoder.word_vectors
        with torch.autocast(h.device.type, enabled=False):
            retrieved = self.clusters(h, words).topk(self._n_best())
            candidates, present = children_of(self.members, retrieved.indices)
            above = F.logsigmoid(retrieved.values).repeat_interleave(self.members.shape[1], 1)
            scores = F.logsigmoid(self.head(h, words, candidates)) + above
        present = present if among is None else present & among[candidates]
        best = scores.masked_fill(~present, -torch.inf).topk(min(k, scores.shape[1]))
        return candidates.gather(1, best.indices), best.values

    def scores_of_document(self, h: Tensor) -> Tensor:
        """Return the scores of all labels, also of those that are not retrieved, for explanations."""
        words = self.encoder.word_vectors
        above = F.logsigmoid(self.clusters(h, words))[:, self.cluster_of]
        return F.logsigmoid(self.head(h, words)) + above
