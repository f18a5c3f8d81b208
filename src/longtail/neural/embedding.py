"""The embedding classifier: sparse features and labels as unit vectors in one space, scored by inner products.

It uses neither Estimator nor Numba, so that it runs wherever torch does.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import nn

from longtail.neural.device_csr import DeviceCsr, Rows
from longtail.neural.losses import MASKED_SCORE, LabelWeights, Loss, Positives
from longtail.neural.regularisers import CoOccurrence, glas, gravity, spread_out

Tensor = torch.Tensor

_INITIAL_SCALE = 20.0  # of the inner products of unit vectors; trained


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

    def forward(self, rows: Rows) -> Tensor:
        """Return phi(x) per point, (n, d), unit length; a point without features gets the vector of the bias."""
        x = F.embedding_bag(rows.columns, self.features, rows.offsets, mode="sum", per_sample_weights=rows.values)
        x = x + self.bias
        for layer in self.layers:
            x = layer(F.relu(x))
        return F.normalize(x.float(), dim=1)

    def label_vectors(self, labels: Tensor | None = None) -> Tensor:
        """Return v_l of unit length, (C, d), for these labels or for all."""
        return F.normalize(self.labels if labels is None else self.labels[labels], dim=1)

    def scores(self, embedded: Tensor, labels: Tensor | None = None) -> Tensor:
        """Return the scores (n, C) of embedded points (n, d), for these labels or for all."""
        scores = (self.log_scale.exp() * embedded) @ self.label_vectors(labels).T
        return scores if self.offset is None else scores + self.offset


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
        Labels drawn at random that each batch is scored against, besides its own. 0 scores all labels.
    labels_per_point : {"mean", "sum", "one"}
        "one" draws one observed label per point (the paper), "mean" takes the mean over all of them, which is the
        expectation of "one", and "sum" their sum.
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
    ) -> None:
        super().__init__()
        self.network = network
        self.X, self.Y, self.loss, self.weights, self.co_occurrence = X, Y, loss, weights, co_occurrence
        self.regulariser, self.strength, self.keep = regulariser, strength, keep
        self.negatives, self.labels_per_point = negatives, labels_per_point

    def training_step(self, points: Tensor) -> Tensor:
        """Return the mean loss over these points, plus the penalty."""
        x, y = self.X.rows(points), self.Y.rows(points)
        if self.keep < 1:
            kept = torch.rand_like(x.values) < self.keep
            x = x._replace(values=x.values * kept / self.keep)
        embedded = self.network(x)
        rows, labels = y.row_of_each, y.columns.long()
        chosen = _one_label_per_point(y)
        loss = self._ranking_loss(embedded, rows, labels, chosen)
        if self.regulariser is None or not chosen.numel():
            return loss
        return loss + self.strength * self._penalty(embedded, labels[chosen])

    def _ranking_loss(self, embedded: Tensor, rows: Tensor, labels: Tensor, chosen: Tensor) -> Tensor:
        """Return the loss; (rows, labels) are the observed pairs of the batch, `chosen` those drawn, one per point."""
        columns, candidates = labels, None
        if self.negatives:
            others = torch.randint(self.Y.shape[1], (self.negatives,), device=labels.device)
            candidates, place = torch.unique(torch.cat([labels, others]), return_inverse=True)
            columns = place[: labels.shape[0]]
        scores = self.network.scores(embedded, candidates)
        if self.labels_per_point != "one":
            own, opposite = self.weights.of(labels)
            if self.labels_per_point == "mean":
                share = 1.0 / torch.bincount(rows, minlength=embedded.shape[0])[rows]
                own = share if own is None else share * own
            return self.loss(scores, Positives(rows, columns), own, opposite)
        # Observed labels that were not drawn get a very low score, so that they do not count as negatives.
        left_out = torch.ones_like(labels, dtype=torch.bool)
        left_out[chosen] = False
        scores = scores.index_put((rows[left_out], columns[left_out]), scores.new_tensor(MASKED_SCORE))
        return self.loss(scores, Positives(rows[chosen], columns[chosen]), *self.weights.of(labels[chosen]))

    def _penalty(self, embedded: Tensor, drawn: Tensor) -> Tensor:
        labels, times = torch.unique(drawn, return_counts=True)
        vectors = self.network.label_vectors(labels)
        if self.regulariser == "glas":
            assert self.co_occurrence is not None
            return glas(vectors, times, self.co_occurrence.among(labels))
        if self.regulariser == "spread-out":
            return spread_out(vectors, times)
        return gravity(vectors, times, embedded)


def _one_label_per_point(y: Rows) -> Tensor:
    """Draw one observed pair per point with labels; return their positions among all pairs (Algorithm 2, line 12)."""
    with_labels = y.lengths.nonzero()[:, 0]
    lengths = y.lengths[with_labels]
    rank = (torch.rand(lengths.shape[0], device=lengths.device) * lengths).long()
    return y.offsets[with_labels].long() + torch.minimum(rank, lengths - 1)  # 0.99999997 * 5 is 5 in float32
