"""AttentionXML for very many labels: one network per level of a label tree, on the best nodes of the level above."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from longtail.neural.device_csr import DeviceCsr
from longtail.neural.losses import MASKED_SCORE
from longtail.neural.plan import TrainingPlan
from longtail.neural.text.attentionxml_network import AttentionNetwork
from longtail.neural.text.batches import Batch
from longtail.neural.text.candidates import children_of, observed_among
from longtail.neural.text.network import Objective, TextNetwork

Tensor = torch.Tensor


class AttentionTree(TextNetwork):
    """A label tree with one network per level; the score of a label is the log-probability of its path.

    `levels[0]` scores the nodes at the top. `members[j]` (nodes, most) are the children of the nodes of level j, -1
    pads; `levels[j + 1]` scores those of the best `beam` nodes.
    """

    def __init__(self, levels: list[AttentionNetwork], members: list[Tensor], beam: int) -> None:
        super().__init__()
        self.levels = nn.ModuleList(levels)
        self.beam = beam
        self.n_tables = len(members)
        for j, table in enumerate(members):
            self.register_buffer(f"members_{j}", table, persistent=False)

    def members(self, level: int) -> Tensor:
        """Return the children of the nodes of a level, (nodes, most), -1 pads."""
        found: Tensor = getattr(self, f"members_{level}")
        return found

    def top(self, batch: Batch, k: int, among: Tensor | None = None) -> tuple[Tensor, Tensor]:
        return self.top_of_level(batch, len(self.levels) - 1, k, among)

    def top_of_level(self, batch: Batch, level: int, k: int, among: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Return the k best nodes of a level, or fewer, with their log-probabilities; in the last level, labels."""
        network: Any = self.levels[level]
        if level == 0:
            best = F.logsigmoid(network.scores(batch)).topk(min(k, network.bias.shape[0]))
            return best.indices, best.values
        nodes, above = self.top_of_level(batch, level - 1, self.beam)
        table = self.members(level - 1)
        candidates, present = children_of(table, nodes)
        scores = F.logsigmoid(network.scores_of(batch, candidates)) + above.repeat_interleave(table.shape[1], 1)
        present = present if among is None else present & among[candidates]
        best = scores.masked_fill(~present, -torch.inf).topk(min(k, scores.shape[1]))
        return candidates.gather(1, best.indices), best.values

    def token_weights(self, batch: Batch, label: int) -> tuple[float, Tensor]:
        """Return the log-probability of the label's path, and the attention weights of the label itself."""
        networks: Any = list(self.levels)
        logit, weights = networks[-1].token_weights(batch, label)
        score, node = float(F.logsigmoid(torch.tensor(logit))), label
        for level in reversed(range(self.n_tables)):
            node = int((self.members(level) == node).nonzero()[0, 0])  # the parent
            score += float(F.logsigmoid(torch.tensor(networks[level].token_weights(batch, node)[0])))
        return score, weights


class LevelTraining(nn.Module):
    """One network of the tree; the candidates of a point are the children of its `nodes` (points, beam), -1 pads."""

    def __init__(
        self, network: AttentionNetwork, members: Tensor, nodes: Tensor, Y: DeviceCsr, objective: Objective
    ) -> None:
        super().__init__()
        self.network, self.members, self.nodes, self.Y, self.objective = network, members, nodes, Y, objective

    def parameter_groups(self, plan: TrainingPlan) -> list[dict[str, Any]]:
        return self.network.parameter_groups(plan)

    def training_step(self, batch: Batch) -> Tensor:
        y = self.Y.rows(batch["points"])
        candidates, present = children_of(self.members, self.nodes[batch["points"]])
        scores = self.network.scores_of(batch, candidates).masked_fill(~present, MASKED_SCORE)
        positives = observed_among(candidates, present, y, self.Y.shape[1])
        return self.objective.loss(scores, positives, *self.objective.weights.of(candidates[positives]))
