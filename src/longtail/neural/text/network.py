"""Base classes of the text networks: a loss to train, the best labels of a batch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from longtail.core.predictions import PAD_LABEL, PAD_SCORE, Predictions, empty_top
from longtail.neural.batches import to_device
from longtail.neural.device_csr import DeviceCsr, Rows
from longtail.neural.losses import LabelWeights, Loss, Positives
from longtail.neural.mips import best_first
from longtail.neural.placement import Placement
from longtail.neural.text.batches import Batch, by_length
from longtail.neural.text.tokens import Tokens

Tensor = torch.Tensor


@dataclass(frozen=True)
class Objective:
    """The loss, and the weights of the labels in it."""

    loss: Loss
    weights: LabelWeights

    def __call__(self, scores: Tensor, y: Rows) -> Tensor:
        """Return the loss for scores of all labels (n, L) and the observed labels of the n points."""
        labels = y.columns.long()
        return self.loss(scores, Positives(y.row_of_each, labels), *self.weights.of(labels))


class TextNetwork(nn.Module, ABC):
    """Base of the text networks.

    A batch is {"tokens" (n, T), "mask" (n, T) if anything is padded, "points" (n,) while training}.
    """

    @abstractmethod
    def top(self, batch: Batch, k: int, among: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Return the k best labels per point, or fewer, and their scores, both (n, k); -inf where there is no label.

        `among` (L,) are the labels that may be found; None for all.
        """

    @abstractmethod
    def token_weights(self, batch: Batch, label: int) -> tuple[float, Tensor]:
        """Return the label's score for a batch of one text, and how much each token (T,) contributes to it."""


class ScoringNetwork(TextNetwork):
    """A network that is trained as a whole and can score every label."""

    @abstractmethod
    def training_loss(self, batch: Batch, y: Rows) -> Tensor:
        """Return the mean loss of the batch's points, whose observed labels are y."""

    def begin_step(self, share: float) -> None:
        """Prepare for a step; `share`, from 0 to 1, is how much of the training is done."""

    @abstractmethod
    def scores(self, batch: Batch) -> Tensor:
        """Return the scores of all labels, (n, L)."""

    def top(self, batch: Batch, k: int, among: Tensor | None = None) -> tuple[Tensor, Tensor]:
        scores = self.scores(batch)
        best = (scores if among is None else scores.masked_fill(~among, -torch.inf)).topk(k)
        return best.indices, best.values


class TextTraining(nn.Module):
    """A network with the labels of the training points on the device: the module that the trainer trains."""

    def __init__(self, network: ScoringNetwork, Y: DeviceCsr) -> None:
        super().__init__()
        self.network, self.Y = network, Y

    def training_step(self, batch: Batch) -> Tensor:
        return self.network.training_loss(batch, self.Y.rows(batch["points"]))

    def begin_step(self, share: float) -> None:
        self.network.begin_step(share)

    def parameter_groups(self, plan: object) -> list[dict[str, object]]:
        groups: list[dict[str, object]] = self.network.parameter_groups(plan)  # type: ignore[operator]
        return groups


def best_labels(
    network: TextNetwork,
    tokens: Tokens,
    k: int,
    *,
    pad: int,
    batch_size: int,
    placement: Placement,
    among: NDArray[np.bool_] | None = None,
) -> Predictions:
    """Return the k best labels per text, in the order of the texts; batches have texts of similar length."""
    labels, scores = empty_top(len(tokens), k)
    allowed = None if among is None or among.all() else torch.from_numpy(among).to(placement.device)
    with torch.inference_mode(), placement.autocast():
        for rows, batch in by_length(tokens, batch_size, pad):
            found, values = network.top(to_device(batch, placement.device), k, allowed)
            width = found.shape[1]
            labels[rows, :width] = found.cpu().numpy()
            scores[rows, :width] = values.float().cpu().numpy()
    labels[np.isneginf(scores)] = PAD_LABEL
    scores[labels < 0] = PAD_SCORE
    return best_first(labels, scores, k)
