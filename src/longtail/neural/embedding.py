"""The embedding classifier: sparse features and labels as unit vectors in one space, scored by inner products.

It uses neither Estimator nor Numba, so that it runs wherever torch does.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import nn

from longtail.neural.device_csr import DeviceCsr, Rows
from longtail.neural.losses import MASKED_SCORE, LabelWeights, Loss, Positives
from longtail.neural.plan import TrainingPlan
from longtail.neural.regularisers import CoOccurrence, glas, gravity, spread_out

Tensor = torch.Tensor

_INITIAL_SCALE = 20.0  # of the inner products of unit vectors; trained
# Groups of points per batch that are scored against different drawn labels. What a batch learns from its draws is then
# a mean over as many samples, for the cost of one; only the vectors of more labels are needed.
_GROUPS = 16


class SharedLengthLinear(nn.Module):
    """A linear layer with the weight normalisation of Guo et al. (2019, section 3.1).

    Each output has a direction of its own; all outputs share one trainable length.
    """

    def __init__(self, n_in: int, n_out: int) -> None:
        super().__init__()
        self.direction = nn.Parameter(torch.randn(n_out, n_in) / math.sqrt(n_in))
        self.length = nn.Parameter(torch.ones(()))
        self.bias = nn.Parameter(torch.zeros(n_out))

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self.length * F.normalize(self.direction), self.bias)


class _SumOfFeatures(torch.autograd.Function):
    """An embedding bag whose gradient is sparse, with each feature of the batch once.

    torch's own has either a gradient for every feature of the data, or one row per stored entry of the batch.
    """

    @staticmethod
    def forward(features: Tensor, columns: Tensor, offsets: Tensor, values: Tensor) -> Tensor:
        return _sum_of_features(features, columns, offsets, values)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        features, *rows = inputs
        ctx.shape = features.shape
        ctx.save_for_backward(*rows)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None, None]:
        """Multiply by the transposed batch, which is an embedding bag too: of points, one bag per feature."""
        rows = Rows(*(ctx.saved_tensors[i] for i in (0, 2, 1)))
        columns, order = torch.sort(rows.columns, stable=True)
        features, points_of_each = torch.unique_consecutive(columns, return_counts=True)
        starts = (torch.cumsum(points_of_each, 0) - points_of_each).to(torch.int32)
        points = rows.row_of_each.to(torch.int32)[order]
        sums = F.embedding_bag(
            points, gradient.contiguous(), starts, mode="sum", per_sample_weights=rows.values[order]
        )  # (features of the batch, width)
        return _gradient_of_rows(features, sums, ctx.shape), None, None, None


def _gradient_of_rows(rows: Tensor, values: Tensor, shape: torch.Size) -> Tensor:
    """Return the sparse gradient of a table in which these rows, distinct and in rising order, have a gradient."""
    return torch.sparse_coo_tensor(rows.long()[None], values, shape, is_coalesced=True, check_invariants=False)


class EmbeddingClassifier(nn.Module):
    """phi(x): an embedding bag over the features, then a ReLU and a layer per further width; unit length.

    Labels are unit vectors with one shared, trainable length (the scale), as in the other layers.

    Parameters
    ----------
    n_features : int
        Features of the data.
    n_labels : int
        Labels of the data.
    widths : sequence of int
        Widths of the layers; the last one is the dimension d of the space. (d,) is a linear map; (h, d) has one hidden
        layer of h units.
    offset : bool, default False
        Whether a trainable number is added to all scores. It changes no ranking, but losses that look at one label at
        a time need it.
    """

    def __init__(self, n_features: int, n_labels: int, widths: Sequence[int], *, offset: bool = False) -> None:
        super().__init__()
        # Only their directions matter in the end; their length sets how fast Adam can turn them.
        self.features = nn.Parameter(torch.randn(n_features, widths[0]) / math.sqrt(widths[0]))
        self.bias = nn.Parameter(torch.zeros(widths[0]))
        self.layers = nn.ModuleList(SharedLengthLinear(a, b) for a, b in pairwise(widths))
        self.labels = nn.Parameter(torch.randn(n_labels, widths[-1]) / math.sqrt(widths[-1]))
        self.log_scale = nn.Parameter(torch.tensor(math.log(_INITIAL_SCALE)))
        self.offset = nn.Parameter(torch.tensor(-_INITIAL_SCALE / 2)) if offset else None

    def forget_features(self, features: Tensor) -> None:
        """Set the weights of features that training never sees to 0; they would keep their random initial weights."""
        with torch.no_grad():
            self.features[features] = 0.0

    def forward(self, rows: Rows, *, sparse: bool = False) -> Tensor:
        """Return phi(x) per point, (n, d), unit length; a point without features gets the vector of the bias.

        With `sparse` the gradient of the features is sparse.
        """
        bag = _SumOfFeatures.apply if sparse else _sum_of_features
        x = bag(self.features, rows.columns, rows.offsets, rows.values) + self.bias
        for layer in self.layers:
            x = layer(F.relu(x))
        return F.normalize(x.float(), dim=1)

    def label_vectors(self, labels: Tensor | None = None, *, sparse: bool = False) -> Tensor:
        """Return v_l of unit length, (C, d), for these labels or for all; with `sparse` their gradient is sparse."""
        return F.normalize(self.labels if labels is None else F.embedding(labels, self.labels, sparse=sparse), dim=1)

    def scores(self, embedded: Tensor, vectors: Tensor) -> Tensor:
        """Return the scores (n, C) of embedded points (n, d) for label vectors (C, d)."""
        scores = (self.log_scale.exp() * embedded) @ vectors.T
        return scores if self.offset is None else scores + self.offset


class _Candidates(NamedTuple):
    """The labels that a batch is scored against.

    Attributes
    ----------
    own : Tensor of shape (O,), or None
        Labels that all points are scored against, the first columns of the scores; None for all labels.
    columns : Tensor of shape (P,)
        Column of each observed pair.
    drawn : Tensor of shape (groups, m), or None
        Labels of the other columns, one row per group of points.
    stands_for : Tensor of shape (O + m,), or None
        How many labels each column stands for as a negative; None for one each.
    """

    own: Tensor | None
    columns: Tensor
    drawn: Tensor | None = None
    stands_for: Tensor | None = None


class EmbeddingTraining(nn.Module):
    """An `EmbeddingClassifier` with its data on the device and its loss: the module that the trainer trains.

    A batch is the row numbers of its points.

    Parameters
    ----------
    network : EmbeddingClassifier
        The network.
    X : DeviceCsr
        Features.
    Y : DeviceCsr
        Observed labels.
    loss : callable
        A function of `neural.losses`.
    weights : LabelWeights
        Weights of the labels.
    co_occurrence : CoOccurrence or None
        Required by the regulariser "glas".
    regulariser : {"glas", "spread-out", "gravity"} or None
        Penalty of the label vectors.
    strength : float
        Weight lambda of the penalty.
    keep : float
        Share of the input features that are kept; the others are dropped out.
    negatives : int
        Labels drawn at random that each point is scored against, besides those of the batch. 0 scores all labels.
        Those drawn stand for all that are not in the batch, so that sums over negatives are on average those over all
        labels. The points of a batch are split into groups of equal size, each with labels of its own.
    labels_per_point : {"mean", "sum", "one"}
        "one" draws one observed label per point (the paper), "mean" takes the mean over all of them, which is the
        expectation of "one", and "sum" their sum.
    sparse : bool, default True
        Whether features and labels have sparse gradients, so that a step costs as much as the features and labels that
        it needs. Several processes cannot average these.
    """

    def __init__(
        self,
        network: EmbeddingClassifier,
        X: DeviceCsr,
        Y: DeviceCsr,
        *,
        loss: Loss,
        weights: LabelWeights,
        co_occurrence: CoOccurrence | None,
        regulariser: str | None,
        strength: float,
        keep: float,
        negatives: int,
        labels_per_point: str,
        sparse: bool = True,
    ) -> None:
        super().__init__()
        self.network = network
        self.X, self.Y, self.loss, self.weights, self.co_occurrence = X, Y, loss, weights, co_occurrence
        self.regulariser, self.strength, self.keep = regulariser, strength, keep
        self.negatives, self.labels_per_point, self.sparse = negatives, labels_per_point, sparse

    def parameter_groups(self, plan: TrainingPlan) -> list[dict[str, Any]]:
        tables = [self.network.features, self.network.labels]
        others = [p for p in self.network.parameters() if all(p is not table for table in tables)]
        return [
            {"params": tables[:1], "rows": True},
            {"params": tables[1:], "rows": True, "sampled": self.negatives > 0},
            {"params": others},
        ]

    def training_step(self, points: Tensor) -> Tensor:
        """Return the mean loss over these points, plus the penalty."""
        x, y = self.X.rows(points), self.Y.rows(points)
        if self.keep < 1:
            kept = torch.rand_like(x.values) < self.keep
            x = x._replace(values=x.values * kept / self.keep)
        embedded = self.network(x, sparse=self.sparse)
        rows, labels = y.row_of_each, y.columns.long()
        chosen = _one_label_per_point(y)
        candidates = self._candidates(labels, points.shape[0])
        own, drawn = self._vectors(candidates)
        scores = self._scores(embedded, own, drawn)
        loss = self._ranking_loss(scores, rows, labels, candidates, chosen)
        if self.regulariser is None or not chosen.numel():
            return loss
        return loss + self.strength * self._penalty(embedded, own, candidates, chosen)

    def _candidates(self, labels: Tensor, n_points: int) -> _Candidates:
        """Return all labels, or those of the batch, in rising order, and others drawn for each group of points."""
        if not self.negatives:
            return _Candidates(None, labels)
        own, columns = torch.unique(labels, return_inverse=True)
        drawn, share = self._others(own, min(_GROUPS, n_points))
        stands_for = torch.ones(own.shape[0] + drawn.shape[1], device=labels.device)
        stands_for[own.shape[0] :] = share
        return _Candidates(own, columns, drawn, stands_for)

    def _others(self, own: Tensor, groups: int) -> tuple[Tensor, float]:
        """Draw labels that are not among `own`, none of them twice.

        Return them, one row per group (of fewer groups where labels are too few), and how many each stands for.
        """
        n_others = self.Y.shape[1] - own.shape[0]
        size = min(self.negatives, n_others)
        groups = max(min(groups, n_others // max(size, 1)), 1)
        ranks = _distinct(n_others, groups * size, own.device)
        # The label with r others below it is r plus the number of own labels below it.
        below = own - torch.arange(own.shape[0], device=own.device)
        drawn = ranks + torch.searchsorted(below, ranks, right=True)
        return drawn.view(groups, size), n_others / max(size, 1)

    def _vectors(self, candidates: _Candidates) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Return the vectors of the own labels, and those drawn, one part per group."""
        if candidates.own is None or candidates.drawn is None:
            return self.network.label_vectors(candidates.own, sparse=self.sparse), ()
        groups, size = candidates.drawn.shape
        labels = torch.cat([candidates.own, candidates.drawn.flatten()])
        vectors = self.network.label_vectors(labels, sparse=self.sparse)
        own, *drawn = torch.split(vectors, [candidates.own.shape[0], *[size] * groups])
        return own, tuple(drawn)

    def _scores(self, embedded: Tensor, own: Tensor, drawn: tuple[Tensor, ...]) -> Tensor:
        """Return the scores (n, O + m): of all points for the own labels, of each group for those drawn for it."""
        scores = self.network.scores(embedded, own)
        if not drawn:
            return scores
        groups = torch.tensor_split(embedded, len(drawn))
        others = [self.network.scores(group, vectors) for group, vectors in zip(groups, drawn, strict=True)]
        return torch.cat([scores, torch.cat(others)], 1)

    def _ranking_loss(
        self, scores: Tensor, rows: Tensor, labels: Tensor, candidates: _Candidates, chosen: Tensor
    ) -> Tensor:
        """Return the loss; (rows, labels) are the observed pairs of the batch, `chosen` those drawn, one per point."""
        columns, stands_for = candidates.columns, candidates.stands_for
        if self.labels_per_point != "one":
            own, opposite = self.weights.of(labels)
            if self.labels_per_point == "mean":
                share = 1.0 / torch.bincount(rows, minlength=scores.shape[0])[rows]
                own = share if own is None else share * own
            return self.loss(scores, Positives(rows, columns), own, opposite, stands_for=stands_for)
        # Observed labels that were not drawn get a very low score, so that they do not count as negatives.
        left_out = torch.ones_like(labels, dtype=torch.bool)
        left_out[chosen] = False
        scores = scores.index_put((rows[left_out], columns[left_out]), scores.new_tensor(MASKED_SCORE))
        observed = Positives(rows[chosen], columns[chosen])
        return self.loss(scores, observed, *self.weights.of(labels[chosen]), stands_for=stands_for)

    def _penalty(self, embedded: Tensor, vectors: Tensor, candidates: _Candidates, chosen: Tensor) -> Tensor:
        """Return the penalty of the labels drawn, one per point, as in Algorithm 2: its cost is that of the batch."""
        columns, times = torch.unique(candidates.columns[chosen], return_counts=True)
        vectors = vectors[columns]
        if self.regulariser == "glas":
            assert self.co_occurrence is not None
            labels = columns if candidates.own is None else candidates.own[columns]
            return glas(vectors, times, self.co_occurrence.among(labels))
        if self.regulariser == "spread-out":
            return spread_out(vectors, times)
        return gravity(vectors, times, embedded)


def _sum_of_features(features: Tensor, columns: Tensor, offsets: Tensor, values: Tensor) -> Tensor:
    return F.embedding_bag(columns, features, offsets, mode="sum", per_sample_weights=values)


def _one_label_per_point(y: Rows) -> Tensor:
    """Draw one observed pair per point with labels; return their positions among all pairs (Algorithm 2, line 12)."""
    with_labels = y.lengths.nonzero()[:, 0]
    lengths = y.lengths[with_labels]
    rank = (torch.rand(lengths.shape[0], device=lengths.device) * lengths).long()
    return y.offsets[with_labels].long() + torch.minimum(rank, lengths - 1)  # 0.99999997 * 5 is 5 in float32


def _distinct(n: int, size: int, device: torch.device) -> Tensor:
    """Draw `size` different numbers below n, in random order, without going through all n where these are many."""
    if n > 4 * size:
        found: Tensor = torch.unique(torch.randint(n, (2 * size,), device=device))
        if found.shape[0] >= size:
            return found[torch.randperm(found.shape[0], device=device)[:size]]
    return torch.randperm(n, device=device)[:size]
