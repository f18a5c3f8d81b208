"""The network of RankNet and its population-aware loss; used, but not at prediction time, by `compose.ranknet`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional

from longtail.core.run import Run
from longtail.neural.batches import ShuffledRows
from longtail.neural.plan import TrainingPlan
from longtail.neural.trainer import train

Arrays = dict[str, NDArray[np.float32]]


@dataclass(frozen=True, eq=False)
class RankedLists:
    """What is learned from: for n points m candidates each.

    `labels` (n, m), numbered from 0 among those that occur, -1 pads; `log_odds` (n, m); `hits` (n, m), which candidates
    are right. `lift`: what is added to the log-probability of each label when labels are ranked. `counts`: training
    points of each label.
    """

    labels: NDArray[np.int32]
    log_odds: NDArray[Any]
    hits: NDArray[np.bool_]
    lift: NDArray[Any]
    counts: NDArray[Any]


@dataclass(frozen=True)
class RankingSettings:
    """`blocks` with `units` hidden units each; `balance` and `margin` are lambda and c of the loss; `negatives`: wrong
    candidates of a point that each step looks at; `anchor`: weight of the cross-entropy of the candidates; `dropout`:
    of the probabilities that hidden units see; `shrink`: weight of the square of what the blocks add to log-odds."""

    blocks: int
    units: int
    balance: float
    margin: float
    negatives: int
    anchor: float
    dropout: float
    shrink: float


class RankingNetwork(nn.Module):
    """The blocks of `compose.residual.ResidualBlocks` with gradients; they start as the identity."""

    def __init__(self, lists: RankedLists, settings: RankingSettings) -> None:
        super().__init__()
        self.settings = settings
        n_labels, blocks, units = lists.counts.size, settings.blocks, settings.units
        self.inward = nn.ParameterList([nn.Parameter(0.1 * torch.randn(n_labels, units)) for _ in range(blocks)])
        self.outward = nn.ParameterList([nn.Parameter(torch.zeros(n_labels, units)) for _ in range(blocks)])
        self.bias = nn.ParameterList([nn.Parameter(torch.zeros(n_labels, 1)) for _ in range(blocks)])
        self.hidden_bias = nn.ParameterList([nn.Parameter(torch.zeros(units)) for _ in range(blocks)])
        # Not buffers: data are no part of what is learned, and stay on the CPU.
        self.present = torch.from_numpy(lists.labels >= 0)
        self.labels = torch.from_numpy(np.maximum(lists.labels, 0).astype(np.int64))
        self.log_odds = torch.from_numpy(np.where(lists.labels >= 0, lists.log_odds, 0).astype(np.float32))
        self.hits = torch.from_numpy(lists.hits)
        self.lift = torch.from_numpy(np.asarray(lists.lift, dtype=np.float32))
        self.counts = torch.from_numpy(np.asarray(lists.counts, dtype=np.float32))

    def parameter_groups(self, plan: TrainingPlan) -> list[dict[str, Any]]:
        rows = [*self.inward, *self.outward, *self.bias]
        return [{"params": rows, "sparse": True}, {"params": list(self.hidden_bias)}]

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        """What the blocks add to the log-odds of the candidates of these points: (n, m)."""
        labels, begin, present = self.labels[rows], self.log_odds[rows], self.present[rows]
        z = begin
        for inward, hidden_bias, outward, bias in zip(
            self.inward, self.hidden_bias, self.outward, self.bias, strict=True
        ):
            active = functional.dropout(torch.sigmoid(z) * present, self.settings.dropout, self.training)
            seen = torch.bmm(active[:, None, :], functional.embedding(labels, inward, sparse=True))[:, 0]
            hidden = torch.relu(hidden_bias + seen)
            change = torch.bmm(functional.embedding(labels, outward, sparse=True), hidden[:, :, None])[:, :, 0]
            z = z + change + functional.embedding(labels, bias, sparse=True)[:, :, 0]
        return z - begin

    def training_step(self, rows: torch.Tensor) -> torch.Tensor:
        labels, present, hits, settings = self.labels[rows], self.present[rows], self.hits[rows], self.settings
        added = self(rows)
        z = self.log_odds[rows] + added
        scores = functional.logsigmoid(z) + self.lift[labels]
        wrong = self._some_of(present & ~hits)
        loss = population_loss(scores, self.counts[labels], hits, wrong, settings.balance, settings.margin)
        # The hinges ask for order only; the cross-entropy keeps log-odds what they are, so that an exponent still fits.
        surprise = functional.binary_cross_entropy_with_logits(z, hits.float(), reduction="none")
        kept: torch.Tensor = ((settings.anchor * surprise + settings.shrink * added.square()) * present).sum()
        return loss + kept / rows.shape[0]

    def _some_of(self, wrong: torch.Tensor) -> torch.Tensor:
        """At most `negatives` of each row's marks, at random."""
        if self.settings.negatives >= wrong.shape[1]:
            return wrong
        chance = torch.rand(wrong.shape).masked_fill(~wrong, -1.0)
        least = chance.topk(self.settings.negatives, dim=1).values[:, -1:]
        return wrong & (chance >= least)

    def to_arrays(self) -> Arrays:
        """The weights as `compose.residual.ResidualBlocks` wants them."""

        def stacked(parameters: nn.ParameterList) -> NDArray[np.float32]:
            return np.stack([parameter.detach().cpu().numpy() for parameter in parameters])

        return {
            "inward": stacked(self.inward),
            "hidden_bias": stacked(self.hidden_bias),
            "outward": stacked(self.outward),
            "bias": stacked(self.bias)[:, :, 0],
        }


def population_loss(
    scores: torch.Tensor, counts: torch.Tensor, hits: torch.Tensor, wrong: torch.Tensor, balance: float, margin: float
) -> torch.Tensor:
    """The population-aware loss ("Improving tail label prediction", section 3.2), the mean over points of

        sum_{i, j right} [ (n_i - n_j) / (n_i + n_j) (F_i - F_j) ]+  +  balance sum_{i right, k wrong} [F_k - F_i + c]+

    The first term asks the rarer of two right labels to stand higher, the second right ones to stand above wrong ones.
    """
    ahead = scores[:, :, None] - scores[:, None, :]  # (n, i, j): F_i - F_j
    n_i, n_j = counts[:, :, None], counts[:, None, :]
    weight = (n_i - n_j) / (n_i + n_j).clamp(min=1)
    rarer_first = (torch.relu(weight * ahead) * (hits[:, :, None] & hits[:, None, :])).sum()
    right_first = (torch.relu(margin - ahead) * (hits[:, :, None] & wrong[:, None, :])).sum()
    return (rarer_first + balance * right_first) / scores.shape[0]


def train_ranking_network(
    lists: RankedLists,
    settings: RankingSettings,
    plan: TrainingPlan,
    *,
    validate: Callable[[Arrays], dict[str, float]],
    run: Run,
) -> Arrays:
    """Train the blocks; gives the weights of the best epoch. validate: metrics of weights, as arrays."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(plan.random_state)
        network = RankingNetwork(lists, settings)
    batches = ShuffledRows(lists.labels.shape[0], plan.batch_size, plan.random_state)
    train(network, batches, plan, validate=lambda _: validate(network.to_arrays()), run=run)
    return network.to_arrays()
