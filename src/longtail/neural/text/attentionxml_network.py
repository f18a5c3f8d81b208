"""The network of AttentionXML: word vectors, a bidirectional LSTM, one attention per label."""

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
_WEIGHTS_AT_ONCE = 2**26  # attention weights (points x labels x words) in memory at once in a prediction


class AttentionNetwork(ScoringNetwork):
    """The network of You et al. (NeurIPS 2019), section 3.2.

    Label l has the attention weights softmax(H u_l) over the words; layers that all labels share map the mean of H with
    these weights to the score of the label.
    """

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
        """Return H (n, T, 2 hidden) for word vectors (n, T, d); the states of pads are 0."""
        # In float32: an LSTM adds up hundreds of steps. Packed: otherwise the backward direction would start in pads.
        with torch.autocast(vectors.device.type, enabled=False):
            packed = pack_padded_sequence(vectors.float(), mask.sum(1).cpu(), batch_first=True, enforce_sorted=False)
            states, _ = pad_packed_sequence(self.lstm(packed)[0], batch_first=True, total_length=mask.shape[1])
        return states

    def attention_weights(self, states: Tensor, mask: Tensor, labels: slice | Tensor) -> Tensor:
        """Return the attention weights (n, labels, T) of some labels, or of candidates (n, C) per point."""
        weights = torch.matmul(self.attention[labels], states.transpose(1, 2))  # (n, labels, T)
        return weights.masked_fill(~mask[:, None], -torch.inf).softmax(2)

    def scores_of_states(self, states: Tensor, mask: Tensor, labels: slice | Tensor) -> Tensor:
        """Return the scores (n, labels) of some labels, or of candidates (n, C) per point."""
        weights = self.attention_weights(states, mask, labels)
        x = torch.matmul(weights.to(states.dtype), states)  # (n, labels, 2 hidden)
        for layer in self.layers:
            x = F.relu(layer(x))
        scores: Tensor = self.last(x)[:, :, 0].float() + self.bias[labels]
        return scores

    def read(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return the states of a batch's words, and which of them are words and not pads."""
        mask = _mask_of(batch)
        vectors = F.dropout(F.embedding(batch["tokens"], self.words), self.word_dropout, self.training)
        return F.dropout(self.states(vectors, mask), self.dropout, self.training), mask

    def scores_of(self, batch: Batch, candidates: Tensor) -> Tensor:
        """Return the scores (n, C) of the candidates per point."""
        return self.scores_of_states(*self.read(batch), candidates)

    def scores(self, batch: Batch) -> Tensor:
        states, mask = self.read(batch)
        n_labels = self.bias.shape[0]
        if self.training:
            return self.scores_of_states(states, mask, slice(0, n_labels))
        step = max(_WEIGHTS_AT_ONCE // mask.numel(), 1)
        parts = [self.scores_of_states(states, mask, slice(i, i + step)) for i in range(0, n_labels, step)]
        return torch.cat(parts, 1)

    def training_loss(self, batch: Batch, y: Rows) -> Tensor:
        assert self.objective is not None
        return self.objective(self.scores(batch), y)

    def token_weights(self, batch: Batch, label: int) -> tuple[float, Tensor]:
        """Return the score of the label and its attention weights."""
        with torch.no_grad():
            states, mask = self.read(batch)
            one = slice(label, label + 1)
            weights = self.attention_weights(states, mask, one)
            return float(self.scores_of_states(states, mask, one)[0, 0]), weights[0, 0]


def _mask_of(batch: Batch) -> Tensor:
    mask = batch.get("mask")
    return torch.ones_like(batch["tokens"], dtype=torch.bool) if mask is None else mask
