"""Slow plain twins of the linear kernels, in float64, and the objective that the models must minimise."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy import sparse
from scipy.special import xlogy

from longtail import DiSMEC, make_longtail
from longtail.bench.recipe import find_data_root
from longtail.data import read_dataset
from longtail.linear.kernels import HINGE, LOGISTIC, SQUARED_HINGE
from longtail.linear.simd import BLOCK
from longtail.objectives import loss_named, resolve_weighting, weighted_loss

MATTERS = 0.02  # logistic: the share of its cost above which a dual variable keeps a point in the inner passes


@dataclass(frozen=True)
class Problem:
    """Points and labels of a training problem; positives weigh `own` (per label) times their relevance in Y."""

    X: sparse.csr_matrix
    Y: sparse.csr_matrix
    own: np.ndarray
    point_weights: np.ndarray
    C: float
    bias: float
    loss: str

    @classmethod
    def of(cls, model: DiSMEC, X, Y, sample_weight=None) -> Problem:
        Y = sparse.csr_matrix(Y)
        counts = np.bincount(Y.indices, minlength=Y.shape[1])
        own, _ = resolve_weighting(model.weighting).coefficients(counts.astype(np.int64), X.shape[0])
        weights = np.ones(X.shape[0]) if sample_weight is None else np.asarray(sample_weight, np.float64)
        X = sparse.csr_matrix(X, dtype=np.float64)
        return cls(X, Y, own, weights, model.C, model.bias, model.loss)

    @property
    def augmented(self) -> sparse.csr_matrix:
        """X with the bias as the last feature."""
        constant = sparse.csr_matrix(np.full((self.X.shape[0], 1), self.bias))
        return sparse.csr_matrix(sparse.hstack([self.X, constant])) if self.bias else self.X

    def primal(self, W: np.ndarray) -> np.ndarray:
        """Return the objective per label at W (augmented features, labels), by the definitions in `objectives`."""
        loss = loss_named(self.loss)
        each = weighted_loss(loss, self.augmented @ W, self.Y > 0, self.own, np.zeros_like(self.own))
        each *= np.where(self.Y.toarray() > 0, self.Y.toarray(), 1.0)
        return 0.5 * (W**2).sum(axis=0) + self.C * self.point_weights @ each

    def dual(self, duals: np.ndarray) -> np.ndarray:
        """Return the dual objective per label at `duals` (points, labels)."""
        signs = np.where(self.Y.toarray() > 0, 1.0, -1.0)
        costs = self.C * np.where(signs > 0, self.own * self.Y.toarray(), 1.0) * self.point_weights[:, None]
        W = self.augmented.T @ (duals * signs)
        return dual_value(self.loss, duals, costs).sum(axis=0) - 0.5 * (W**2).sum(axis=0)


def dual_value(loss: str, a: np.ndarray, c: np.ndarray) -> np.ndarray:
    """Return f(a) per dual variable; all must be feasible."""
    assert (a >= 0).all()
    if loss == "squared-hinge":
        return a - a**2 / (4 * c)
    share = a / c
    assert (share <= 1 + 1e-6).all()
    share = np.minimum(share, 1)
    return a if loss == "hinge" else -c * (xlogy(share, share) + xlogy(1 - share, 1 - share))


def weights_of(model: DiSMEC) -> np.ndarray:
    """Return a model's weights (augmented features, labels) in float64."""
    W = model.weights_.toarray().astype(np.float64)
    # A label without points has no problem to solve; what all negatives converge to stands in for it.
    intercepts = np.where(model.label_counts_ > 0, model.intercept_, -1)
    return np.vstack([W, intercepts / model.bias]) if model.bias else W


def objective(model: DiSMEC, X, Y, sample_weight=None) -> np.ndarray:
    return Problem.of(model, X, Y, sample_weight).primal(weights_of(model))


def plain_pass(order, loss, X, point_weights, positive, costs, duals, W, live):
    """Do what `kernels.one_pass` does, one point and one label at a time; return sums and active."""
    sums, active = np.zeros((3, BLOCK)), np.zeros(X.shape[0], np.uint8)
    for i in order:
        active[i] = 0
        for b in range(BLOCK):
            y = 1.0 if positive[i, b] else -1.0
            cost = (costs[1, b] * positive[i, b] if positive[i, b] else costs[0, b]) * point_weights[i]
            margin, norm, a = y * (X[i] @ W[:, b]), X[i] @ X[i], duals[i, b]
            new, primal, matters = STEPS[loss](margin, norm, a, cost)
            if live[b] == 0:
                continue
            duals[i, b] = new
            before = W[:, b] @ W[:, b]
            W[:, b] += (new - a) * y * X[i]
            sums[2, b] += W[:, b] @ W[:, b] - before
            sums[0, b] += primal
            sums[1, b] += dual_value(NAMES[loss], new, cost)
            active[i] |= matters
    return sums, active


def plain_values(loss, X, point_weights, positive, costs, duals, W, live):
    """Do what `kernels.evaluate` does: return primal loss and dual value per label, and the unsettled points."""
    signs = np.where(positive, 1.0, -1.0)
    cost = np.where(positive, costs[1] * positive, costs[0]) * point_weights[:, None]
    margins = signs * (X @ W)
    primal = cost * loss_named(NAMES[loss]).positive(margins)
    unsettled = duals / cost > MATTERS if loss == LOGISTIC else np.maximum(duals, 1 - margins) > 0
    sums = np.stack([primal.sum(axis=0), dual_value(NAMES[loss], duals, cost).sum(axis=0)])
    return sums, unsettled[:, live > 0].any(axis=1).astype(np.uint8)


def _squared_hinge(margin, norm, a, cost):
    d = 1 / (2 * cost)
    new = max(a - (margin - 1 + d * a) / (norm + d), 0.0)  # Hsieh et al. 2008, eq. 9
    return np.float64(new), cost * max(1 - margin, 0) ** 2, new > 0


def _hinge(margin, norm, a, cost):
    new = min(max(a - (margin - 1) / norm, 0.0), cost) if norm > 0 else cost
    return np.float64(new), cost * max(1 - margin, 0), new > 0


def _logistic(margin, norm, a, cost):
    step = 1 / (1 + cost * norm / 4)  # Shalev-Shwartz and Zhang 2013, section 6.2
    new = a + step * (cost / (1 + np.exp(margin)) - a)
    return np.float64(new), cost * np.log1p(np.exp(-margin)), new / cost > MATTERS


STEPS = {SQUARED_HINGE: _squared_hinge, HINGE: _hinge, LOGISTIC: _logistic}
NAMES = {SQUARED_HINGE: "squared-hinge", HINGE: "hinge", LOGISTIC: "logistic"}


def synthetic(n_points=400, n_features=300, n_labels=70, seed=0):
    """Return unit-length rows with long-tailed labels; some labels have no points, some points no labels."""
    train = make_longtail(n_points, n_features, n_labels, n_test_points=10, random_state=seed).train
    return train.X, train.Y


def bibtex():
    """Return the training set of bibtex if it is on this machine, else None."""
    file = find_data_root(None, Path(__file__)) / "bibtex" / "train.txt.xz"
    if not file.is_file():
        return None
    train = read_dataset(file)
    return train.X, train.Y
