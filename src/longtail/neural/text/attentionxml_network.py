"""The network of AttentionXML: word vectors, a bidirectional LSTM, an attention of its own for every label."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from longtail.neural.device_csr import Rows
from longtail.neural.plan import TrainingPlan
from longtail.neural.text.batches import Batch
from longtail.neural.text.network import Objective, ScoringNetwork

Tensor = torch.Tensor
_WEIGHTS_AT_ONCE = 2**26  # attention weights (points x labels x words) of a prediction that are held at a time


class AttentionNetwork(ScoringNetwork):
    """You et al. (NeurIPS 2019), section 3.2: attention weights of label l over the words, softmax(H u_l); their mean
    of H, through layers that all labels share, is the label's score."""

    objective: Objective | None = None  # for training

    def __init__(
        self,
        vectors: Tensor,
        prior: Tensor,
        *,
        hidden: int,
        widths: tuple[int, ...],
        word_dropout: float,
        dropout: float,
    ) -> None:
        super().__init__()
        self.words = nn.Parameter(vectors.clone())
        self.lstm = nn.LSTM(vectors.shape[1], hidden, batch_first=True, bidirectional=True)
        self.attention = nn.Parameter(torch.empty(prior.shape[0], 2 * hidden))
        nn.init.xavier_uniform_(self.attention)
        sizes = [2 * hidden, *widths]
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(sizes))
        self.last = nn.Linear(sizes[-1], 1, bias=False)
        self.bias = nn.Parameter(prior.clone())
        self.word_dropout, self.dropout = word_dropout, dropout

    def parameter_groups(self, plan: TrainingPlan) -> list[dict[str, Any]]:
        return [{"params": list(self.parameters())}]

    def states(self, vectors: Tensor, mask: Tensor) -> Tensor:
        """H (n, T, 2 hidden) of the words' vectors; words that are pads have states of 0."""
        # In float32: an LSTM adds up hundreds of steps. Packed: else the backward direction would begin in the pads.
        with torch.autocast(vectors.device.type, enabled=False):
            packed = pack_padded_sequence(vectors.float(), mask.sum(1).cpu(), batch_first=True, enforce_sorted=False)
            states, _ = pad_packed_sequence(self.lstm(packed)[0], batch_first=True, total_length=mask.shape[1])
        return states

    def attended(self, states: Tensor, mask: Tensor, labels: slice | Tensor) -> Tensor:
        """Attention weights (n, labels, T) of some labels, or of candidates (n, C) of each point."""
        weights = torch.matmul(self.attention[labels], states.transpose(1, 2))  # (n, labels, T)
        return weights.masked_fill(~mask[:, None], -torch.inf).softmax(2)

    def of_states(self, states: Tensor, mask: Tensor, labels: slice | Tensor) -> Tensor:
        """Scores (n, labels)."""
        x = torch.matmul(self.attended(states, mask, labels).to(states.dtype), states)  # (n, labels, 2 hidden)
        for layer in self.layers:
            x = F.relu(layer(x))
        scores: Tensor = self.last(x)[:, :, 0].float() + self.bias[labels]
        return scores

    def read(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """The states of a batch's words and which of them are words."""
        mask = _mask_of(batch)
        vectors = F.dropout(F.embedding(batch["tokens"], self.words), self.word_dropout, self.training)
        return F.dropout(self.states(vectors, mask), self.dropout, self.training), mask

    def scores_of(self, batch: Batch, candidates: Tensor) -> Tensor:
        """The scores (n, C) of the candidates of each point."""
        return self.of_states(*self.read(batch), candidates)

    def scores(self, batch: Batch) -> Tensor:
        states, mask = self.read(batch)
        n_labels = self.bias.shape[0]
        if self.training:
            return self.of_states(states, mask, slice(0, n_labels))
        step = max(_WEIGHTS_AT_ONCE // mask.numel(), 1)
        return torch.cat([self.of_states(states, mask, slice(i, i + step)) for i in range(0, n_labels, step)], 1)

    def training_loss(self, batch: Batch, y: Rows) -> Tensor:
        assert self.objective is not None
        return self.objective(self.scores(batch), y)

    def token_weights(self, batch: Batch, label: int) -> tuple[float, Tensor]:
        """The label's own attention weights."""
        with torch.no_grad():
            states, mask = self.read(batch)
            one = slice(label, label + 1)
            return float(self.of_states(states, mask, one)[0, 0]), self.attended(states, mask, one)[0, 0]


def _mask_of(batch: Batch) -> Tensor:
    mask = batch.get("mask")
    return torch.ones_like(batch["tokens"], dtype=torch.bool) if mask is None else mask
