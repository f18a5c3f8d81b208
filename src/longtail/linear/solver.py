"""Train many one-vs-rest classifiers, one block of labels at a time.

The data is prepared once (rows in random order, bias column). The kernels then train each block of labels, and its
pruned weights come back as a small sparse matrix. Blocks are independent: the result does not depend on threads, on the
order in which blocks finish, or on which of them came from a checkpoint.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from longtail.core.compiled import njit
from longtail.core.memory import huge_zeros, read_only
from longtail.core.workspace import Workspace
from longtail.linear import kernels, limits
from longtail.linear.options import LOSSES, SolverOptions, TrainedBlock
from longtail.linear.simd import BLOCK


class Solved(NamedTuple):
    """Outcome of `Problem.solve`: the kernels' arrays, one lane per label; lanes beyond the labels are empty."""

    W: NDArray[np.float32]  # (features, lanes), the bias last
    duals: NDArray[np.float32]  # (points, lanes)
    gaps: NDArray[np.float64]  # relative duality gap per lane when it left
    passes: NDArray[np.int64]  # full passes, inner passes


class Problem:
    """Points in the form that the kernels read; trains any block of labels on them.

    Parameters
    ----------
    X : (indptr, indices, data)
        Features of the points, indices as uint32, the bias as the last entry of each row. Neighbouring rows should not
        be similar.
    members : (indptr, points, positions)
        Points per label in CSC form; `positions[i]` is the row of X that holds point i.
    costs : (L,) array
        C times the weight of each label's positives.
    n_features : int
        Number of features, with the bias.
    point_weights : (n,) array of float32, optional
        Weights of the rows of X; all 1 by default.
    relevances : array of float32, optional
        Relevance of each entry of `points`, a factor of its cost; all 1 by default.
    """

    def __init__(
        self,
        X: tuple[NDArray, ...],
        members: tuple[NDArray, ...],
        costs: NDArray[np.floating],
        n_features: int,
        *,
        point_weights: NDArray[np.float32] | None = None,
        relevances: NDArray[np.float32] | None = None,
    ) -> None:
        self.X, self.members = tuple(map(read_only, X)), tuple(map(read_only, members))
        self.costs, self.n_features = costs, n_features
        self.norms = read_only(_row_norms(*self.X))
        self.n_points = self.norms.size
        self.point_weights = read_only(np.ones(self.n_points, np.float32) if point_weights is None else point_weights)
        self.relevances = read_only(np.empty(0, np.float32) if relevances is None else relevances)

    def solve(
        self, labels: NDArray[np.intp], options: SolverOptions, seed: int, *, duals: sparse.csr_matrix | None = None
    ) -> Solved:
        """Train at most BLOCK labels.

        Parameters
        ----------
        labels : array of label ids
            At most BLOCK of them.
        options : SolverOptions
            Loss, C and when to stop.
        seed : int
            Seed of the order in which points are visited.
        duals : (labels, points) csr_matrix, optional
            Dual variables to start from, points in the order of X's rows; zero by default.

        Returns
        -------
        Solved
        """
        costs = np.full((2, BLOCK), options.C, np.float32)
        costs[1, : labels.size] = self.costs[labels]
        indptr, points, positions = self.members
        members = _members(indptr, points, self.relevances, read_only(labels), positions, self.n_points)
        a = huge_zeros((self.n_points, BLOCK))
        W = huge_zeros((self.n_features, BLOCK))
        if duals is not None:
            lanes = np.repeat(np.arange(duals.shape[0]), np.diff(duals.indptr))
            a[duals.indices, lanes] = duals.data
            if options.loss != "squared-hinge":  # with the other losses a dual variable is at most its cost
                _clip_to_costs(a, members, costs, self.point_weights)
            kernels.weights_of_duals(self.X, members, a, W)
        live = np.zeros(BLOCK, np.float32)
        live[: labels.size] = 1
        gaps = np.zeros(BLOCK, np.float64)
        passes = kernels.solve_block(
            LOSSES[options.loss], self.X, self.norms, self.point_weights, members, costs, a, W, live,
            float(options.tol), options.max_passes, seed, gaps, duals is not None and duals.nnz > 0,
        )  # fmt: skip
        return Solved(W, a, gaps, np.asarray(passes, np.int64))


class BlockSolver:
    """A whole training set as one problem whose labels are trained block by block.

    Parameters
    ----------
    X : (n, D) csr_matrix of float32
        Features.
    Y : (n, L) csr_matrix
        Labels: ones, or relevances, which are factors of the cost of positives.
    options : SolverOptions
        Loss, C and when to stop.
    positive_weights : (L,) array, optional
        Weight of each label's positives; all 1 by default.
    point_weights : (n,) array, optional
        Weight of each point; all 1 by default.
    seed : int, default 0
        Seed of the order in which points are visited.
    workspace : Workspace, optional
        Where the working copy of X is; in memory by default.
    """

    def __init__(
        self,
        X: sparse.csr_matrix,
        Y: sparse.csr_matrix,
        options: SolverOptions,
        *,
        positive_weights: NDArray[np.floating] | None = None,
        point_weights: NDArray[np.floating] | None = None,
        seed: int = 0,
        workspace: Workspace | None = None,
    ) -> None:
        self.options, self.seed = options, seed
        self.n_points, self.n_features = X.shape
        # Neighbours in a file are often similar. Rows are shuffled once, so that passes can read memory in order.
        self.order = np.random.default_rng(seed).permutation(X.shape[0])
        positions = np.empty_like(self.order)
        positions[self.order] = np.arange(X.shape[0])
        by_label = Y.tocsc()
        own = np.ones(Y.shape[1]) if positive_weights is None else positive_weights
        self._problem = Problem(
            _permuted_with_bias(X, self.order, options.bias, workspace),
            (by_label.indptr, by_label.indices, positions),
            options.C * own,
            X.shape[1] + (options.bias != 0),
            point_weights=None if point_weights is None else np.asarray(point_weights, np.float32)[self.order],
            relevances=None if (by_label.data == 1).all() else np.asarray(by_label.data, np.float32),
        )
        limits.check_norms(self._problem.norms, self.order)
        trained = np.diff(by_label.indptr) > 0
        limits.check_costs(
            options.C, self._problem.costs, trained, "label", self._problem.point_weights,
            relevance=float(by_label.data.min(initial=1)),
        )  # fmt: skip

    def memory(self) -> int:
        """Return the bytes of a block: its dual variables and weights."""
        return int(4 * BLOCK * (self.n_points + self.n_features))

    def train(self, labels: NDArray[np.intp], *, duals: sparse.csr_matrix | None = None) -> TrainedBlock:
        """Train at most BLOCK labels, starting from zero or from the given dual variables (labels, points)."""
        options = self.options
        if duals is not None:
            positions = self._problem.members[2]
            duals = sparse.csr_matrix((duals.data, positions[duals.indices], duals.indptr), shape=duals.shape)
        solved = self._problem.solve(labels, options, self.seed + int(labels[0]) + 1, duals=duals)
        W = solved.W
        limits.check_finite(solved.W, solved.gaps, labels, "label", options.C)
        intercepts = W[-1, : labels.size] * np.float32(options.bias) if options.bias else np.zeros(labels.size)
        return TrainedBlock(
            _pruned(W[: self.n_features], labels.size, options.prune),
            intercepts.astype(np.float32),
            solved.gaps[: labels.size],
            solved.passes,
            self._kept(solved.duals, labels.size) if options.keep_duals else None,
        )

    def _kept(self, a: NDArray[np.float32], n_labels: int) -> sparse.csr_matrix:
        points, lanes = np.nonzero(a[:, :n_labels])
        shape = (n_labels, self.n_points)
        return sparse.csr_matrix((a[points, lanes], (lanes, self.order[points])), shape=shape)


def _permuted_with_bias(
    X: sparse.csr_matrix, order: NDArray[np.intp], bias: float, workspace: Workspace | None = None
) -> tuple[NDArray, ...]:
    extra = 1 if bias else 0
    lengths = np.diff(X.indptr)[order] + extra
    indptr = np.zeros(order.size + 1, np.int64)
    np.cumsum(lengths, out=indptr[1:])
    workspace = workspace or Workspace()
    indices, data = workspace.zeros((int(indptr[-1]),), np.uint32), workspace.zeros((int(indptr[-1]),))
    _copy_rows(X.indptr.astype(np.int64), X.indices, X.data, order, indptr, indices, data)
    if extra:
        indices[indptr[1:] - 1] = X.shape[1]
        data[indptr[1:] - 1] = bias
    return indptr, indices, data


@njit(cache=True, nogil=True)
def _copy_rows(indptr, indices, data, order, new_indptr, new_indices, new_data):
    for row in range(order.shape[0]):
        first, target = indptr[order[row]], new_indptr[row]
        for p in range(indptr[order[row] + 1] - first):
            new_indices[target + p] = indices[first + p]
            new_data[target + p] = data[first + p]


@njit(cache=True, nogil=True)
def _row_norms(indptr, indices, data):
    norms = np.zeros(indptr.shape[0] - 1, np.float32)
    for i in range(norms.shape[0]):
        for p in range(indptr[i], indptr[i + 1]):
            norms[i] += data[p] * data[p]
    return norms


@njit(cache=True, nogil=True)
def _members(indptr, indices, relevances, labels, positions, n_points):
    """Return, as (indptr, lanes, relevances), the lanes whose label each point has; points in the solver's order."""
    ptr = np.zeros(n_points + 1, np.int64)
    for label in labels:
        for p in range(indptr[label], indptr[label + 1]):
            ptr[positions[indices[p]] + 1] += 1
    for i in range(n_points):
        ptr[i + 1] += ptr[i]
    lanes, shares = np.empty(ptr[-1], np.int32), np.ones(ptr[-1], np.float32)
    filled = ptr[:-1].copy()
    for lane in range(labels.shape[0]):
        for p in range(indptr[labels[lane]], indptr[labels[lane] + 1]):
            i = positions[indices[p]]
            lanes[filled[i]] = lane
            if relevances.shape[0]:
                shares[filled[i]] = relevances[p]
            filled[i] += 1
    return ptr, lanes, shares


@njit(cache=True, nogil=True)
def _clip_to_costs(a, members, costs, weights):
    ptr, lanes, shares = members
    for i in range(a.shape[0]):
        limit = costs[0] * weights[i]
        for q in range(ptr[i], ptr[i + 1]):
            limit[lanes[q]] = costs[1, lanes[q]] * shares[q] * weights[i]
        for b in range(a.shape[1]):
            a[i, b] = min(a[i, b], limit[b])


def _pruned(W: NDArray[np.float32], n_labels: int, threshold: float) -> sparse.csr_matrix:
    threshold = min(threshold, float(np.finfo(np.float32).max))
    indptr, indices, data = _prune_kernel(W, n_labels, np.float32(threshold))
    return sparse.csr_matrix((data, indices, indptr), shape=(n_labels, W.shape[0]), copy=False)


@njit(cache=True, nogil=True)
def _prune_kernel(W, n_labels, threshold):
    counts = np.zeros(n_labels + 1, np.int64)
    for f in range(W.shape[0]):
        for b in range(n_labels):
            if abs(W[f, b]) >= threshold and W[f, b] != 0:
                counts[b + 1] += 1
    indptr = np.cumsum(counts)
    indices, data = np.empty(indptr[-1], np.int32), np.empty(indptr[-1], np.float32)
    filled = indptr[:-1].copy()
    for f in range(W.shape[0]):
        for b in range(n_labels):
            if abs(W[f, b]) >= threshold and W[f, b] != 0:
                indices[filled[b]], data[filled[b]] = f, W[f, b]
                filled[b] += 1
    return indptr, indices, data
