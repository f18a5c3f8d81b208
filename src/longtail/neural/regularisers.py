"""Regularisers of label vectors: GLaS, spread-out and gravity (Guo et al. 2019, section 3).

Each takes the labels y_1..y_B drawn for a batch, one per point, so that frequent labels count more often. Each distinct
label is stored once, with the number of times it was drawn: the same sum, over fewer pairs.
"""

from __future__ import annotations

import torch
from scipy import sparse

from longtail.neural.device_csr import DeviceCsr

Tensor = torch.Tensor

REGULARISERS = ("glas", "spread-out", "gravity")


class CoOccurrence:
    """U = (A Z^-1 + Z^-1 A) / 2, the mean of the two conditional frequencies of a pair of labels (eq. 3).

    A = Y'Y counts the points that have both labels, Z is its diagonal. Sparse: only pairs that occur are stored.
    """

    def __init__(self, Y: sparse.csr_matrix, device: torch.device | str) -> None:
        self.n_labels = Y.shape[1]
        counts = sparse.csr_matrix(Y.T @ Y).tocoo()
        totals = torch.from_numpy(counts.tocsr().diagonal()).clamp(min=1).numpy()
        values = 0.5 * counts.data * (1.0 / totals[counts.row] + 1.0 / totals[counts.col])
        self.matrix = DeviceCsr(sparse.csr_matrix((values, (counts.row, counts.col)), shape=counts.shape), device)
        self.place = torch.full((self.n_labels,), -1, dtype=torch.int64, device=device)

    def among(self, labels: Tensor) -> Tensor:
        """Return the dense submatrix of U for distinct labels, (b, b)."""
        b = labels.shape[0]
        self.place[labels] = torch.arange(b, device=labels.device)
        rows = self.matrix.rows(labels)
        columns = self.place[rows.columns.long()]
        inside = columns >= 0
        dense = torch.zeros(b, b, device=labels.device)
        dense[rows.row_of_each[inside], columns[inside]] = rows.values[inside]
        self.place[labels] = -1
        return dense


def glas(vectors: Tensor, times: Tensor, target: Tensor) -> Tensor:
    """Return 1/B^2 |V'V - U|_F^2 (eq. 3); `vectors` (b, d) of distinct labels, `times` (b,) each was drawn."""
    return _mean_over_pairs((vectors @ vectors.T).float() - target, times, times)


def spread_out(vectors: Tensor, times: Tensor) -> Tensor:
    """Return 1/B^2 sum over pairs of different labels of (v_y . v_y')^2 (eq. 2, without its constant diagonal)."""
    products = (vectors @ vectors.T).float()
    return _mean_over_pairs(products - torch.diag(torch.diagonal(products)), times, times)


def gravity(vectors: Tensor, times: Tensor, points: Tensor) -> Tensor:
    """Return 1/B^2 sum over the batch's points and labels of (phi(x) . v_y)^2 (Krichene et al. 2018)."""
    return _mean_over_pairs((points @ vectors.T).float(), torch.ones_like(points[:, 0], dtype=torch.float32), times)


def _mean_over_pairs(differences: Tensor, row_times: Tensor, column_times: Tensor) -> Tensor:
    row_times, column_times = row_times.float(), column_times.float()
    total = row_times.sum() * column_times.sum()
    return (row_times @ differences.square() @ column_times) / total
