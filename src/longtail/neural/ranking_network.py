"""The network of RankNet and its population-aware loss; `compose.ranknet` uses it for training only."""

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
from longtail.neural.placement import seeded
from longtail.neural.plan import TrainingPlan
from longtail.neural.trainer import train

Arrays = dict[str, NDArray[np.float32]]


@dataclass(frozen=True, eq=False)
class RankedLists:
    """Training data: n points with m candidate labels each.

    Parameters
    ----------
    labels : int array of shape (n, m)
        Candidates, numbered from 0 among the labels that occur; -1 pads.
    log_odds : array of shape (n, m)
        Log-odds of the candidates.
    hits : bool array of shape (n, m)
        Whether a candidate is a label of the point.
    lift : array of shape (labels,)
        Added to the log-probability of each label for ranking.
    counts : array of shape (labels,)
        Training points per label.
    """

    labels: NDArray[np.int32]
    log_odds: NDArray[Any]
    hits: NDArray[np.bool_]
    lift: NDArray[Any]
    counts: NDArray[Any]


@dataclass(frozen=True)
class RankingSettings:
    """Settings of the network and its loss.

    Parameters
    ----------
    blocks : int
        Residual blocks.
    units : int
        Hidden units per block.
    balance : float
        lambda of the loss.
    margin : float
        c of the loss.
    negatives : int
        Wrong candidates per point in each step.
    anchor : float
        Weight of the cross-entropy of the candidates.
    dropout : float
        Dropout of the probabilities that the hidden units take as input.
    shrink : float
        Weight of the square of what the blocks add to log-odds.
    """

    blocks: int
    units: int
    balance: float
    margin: float
    negatives: int
    anchor: float
    dropout: float
    shrink: float


class RankingNetwork(nn.Module):
    """The blocks of `compose.residual.ResidualBlocks` with gradients, initially the identity."""

    def __init__(self, lists: RankedLists, settings: RankingSettings) -> None:
        super().__init__()
        self.settings = settings
        n_labels, blocks, units = lists.counts.size, settings.blocks, settings.units
        self.inward = nn.ParameterList([nn.Parameter(0.1 * torch.randn(n_labels, units)) for _ in range(blocks)])
        self.outward = nn.ParameterList([nn.Parameter(torch.zeros(n_labels, units)) for _ in range(blocks)])
        self.bias = nn.ParameterList([nn.Parameter(torch.zeros(n_labels, 1)) for _ in range(blocks)])
        self.hidden_bias = nn.ParameterList([nn.Parameter(torch.zeros(units)) for _ in range(blocks)])
        # Not buffers: the data is not part of the weights and stays on the CPU.
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
        """Return what the blocks add to the log-odds of the candidates of these points, (n, m)."""
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
        """Return the mean loss over these points."""
        labels, present, hits, settings = self.labels[rows], self.present[rows], self.hits[rows], self.settings
        added = self(rows)
        z = self.log_odds[rows] + added
        scores = functional.logsigmoid(z) + self.lift[labels]
        wrong = self._some_of(present & ~hits)
        loss = population_loss(scores, self.counts[labels], hits, wrong, settings.balance, settings.margin)
        # The hinges only concern the order; the cross-entropy keeps z log-odds, so that an exponent still fits.
        cross_entropy = functional.binary_cross_entropy_with_logits(z, hits.float(), reduction="none")
        anchored: torch.Tensor = ((settings.anchor * cross_entropy + settings.shrink * added.square()) * present).sum()
        return loss + anchored / rows.shape[0]

    def _some_of(self, wrong: torch.Tensor) -> torch.Tensor:
        """Keep at most `negatives` true entries per row, chosen at random."""
        if self.settings.negatives >= wrong.shape[1]:
            return wrong
        chance = torch.rand(wrong.shape).masked_fill(~wrong, -1.0)
        least = chance.topk(self.settings.negatives, dim=1).values[:, -1:]
        return wrong & (chance >= least)

    def to_arrays(self) -> Arrays:
        """Return the weights in the form that `compose.residual.ResidualBlocks` takes."""

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
    """Return the population-aware loss ("Improving tail label prediction", section 3.2), the mean over points of

        sum_{i, j right} [ (n_i - n_j) / (n_i + n_j) (F_i - F_j) ]+  +  balance sum_{i right, k wrong} [F_k - F_i + c]+

    The first term ranks the rarer of two right labels higher, the second ranks right labels above wrong ones.
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
    """Train the blocks of RankNet.

    Parameters
    ----------
    lists : RankedLists
        Training data.
    settings : RankingSettings
        Settings of the network and its loss.
    plan : TrainingPlan
        Training parameters.
    validate : callable
        Takes weights as arrays and returns metrics by name.
    run : Run
        Progress and checkpoint.

    Returns
    -------
    dict of str to array
        Weights of the best epoch.
    """
    with seeded(plan.random_state):
        network = RankingNetwork(lists, settings)
    batches = ShuffledRows(lists.labels.shape[0], plan.batch_size, plan.random_state)
    train(network, batches, plan, validate=lambda _: validate(network.to_arrays()), run=run)
    return network.to_arrays()
