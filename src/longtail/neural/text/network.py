"""What the text models have in common as networks: a loss to train, the best labels of a batch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from longtail.core.predictions import PAD_LABEL, PAD_SCORE, Predictions, empty_top
from longtail.neural.batches import to_device
from longtail.neural.device_csr import DeviceCsr, Rows
from longtail.neural.losses import LabelWeights, Positives
from longtail.neural.mips import best_first
from longtail.neural.placement import Placement
from longtail.neural.text.batches import Batch, by_length
from longtail.neural.text.tokens import Tokens

Tensor = torch.Tensor
Loss = Callable[..., Tensor]


@dataclass(frozen=True)
class Objective:
    """The loss, and how much each label counts in it."""

    loss: Loss
    weights: LabelWeights

    def __call__(self, scores: Tensor, y: Rows) -> Tensor:
        """Of scores of all labels (n, L) and the noted labels of the n points."""
        labels = y.columns.long()
        return self.loss(scores, Positives(y.row_of_each, labels), *self.weights.of(labels))


class TextNetwork(nn.Module, ABC):
    """A batch is {"tokens" (n, T), "mask" (n, T) if anything is padded, "points" (n,) while training}."""

    @abstractmethod
    def top(self, batch: Batch, k: int, among: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Return at most k best labels per point and their scores, (n, k) both; -inf where there is no label.

        among: (L,), which labels may be found; None for all.
        """

    @abstractmethod
    def token_weights(self, batch: Batch, label: int) -> tuple[float, Tensor]:
        """For a batch of one text the label's score, and how much each token (T,) spoke for it."""


class ScoringNetwork(TextNetwork):
    """A network that is trained as a whole and can score every label."""

    @abstractmethod
    def training_loss(self, batch: Batch, y: Rows) -> Tensor:
        """The mean loss of the batch's points, whose noted labels are y."""

    def begin_step(self, share: float) -> None:
        """Told before every step how much of the training is done, from 0 to 1."""

    @abstractmethod
    def scores(self, batch: Batch) -> Tensor:
        """The scores of all labels, (n, L)."""

    def top(self, batch: Batch, k: int, among: Tensor | None = None) -> tuple[Tensor, Tensor]:
        scores = self.scores(batch)
        best = (scores if among is None else scores.masked_fill(~among, -torch.inf)).topk(k)
        return best.indices, best.values


class TextTraining(nn.Module):
    """A network with the labels of the training points on the device: what the trainer is handed."""

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
    """Return the k best labels per text; batches of similar length, the answers in the order of the texts."""
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
