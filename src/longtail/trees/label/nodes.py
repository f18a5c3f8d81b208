"""Train the classifiers of one node: a small problem cut out of the data, solved in label blocks, kept sparse.

The children of a node share their points: those with some label below the node (Prabhu et al. 2018, section 4.2). These
points are few and use few of the features. So the node gets a copy of its rows with its features renumbered from 0: the
solver's weights are then small enough to stay in the processor's cache.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from longtail.core.compiled import copy_to, njit
from longtail.core.memory import read_only
from longtail.linear import limits
from longtail.linear.options import SolverOptions
from longtail.linear.simd import BLOCK
from longtail.linear.solver import Problem
from longtail.objectives import Weighting
from longtail.trees.label.tree import LabelTree

BUNDLES = 1024  # of nodes, at least: as many parts keep the threads of a large machine busy to the end


class TrainedNode(NamedTuple):
    """Weights of a node by feature: row r has the entries `starts[r]` to `starts[r + 1]` of `children` and `values`."""

    features: NDArray[np.int32]  # feature of each row, ascending
    starts: NDArray[np.int64]
    children: NDArray[np.int32]  # numbered within the node
    values: NDArray[np.float32]
    bias: NDArray[np.float32]  # one per child
    gaps: NDArray[np.float64]  # relative duality gap per child


@dataclass
class NodeTrainer:
    """Training data from which `train` cuts out the problem of a node; threads may share it."""

    X: sparse.csr_matrix
    Y: sparse.csr_matrix
    tree: LabelTree
    options: SolverOptions
    weighting: Weighting
    seed: int
    _scratch: list[tuple[NDArray[np.int32], NDArray[np.int32]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        by_label = self.Y.tocsc()
        self._points_of = read_only(by_label.indptr.astype(np.int64)), read_only(by_label.indices)
        self._rows = tuple(map(read_only, (self.X.indptr.astype(np.int64), self.X.indices, self.X.data)))

    def __getstate__(self) -> dict[str, Any]:
        """Return what other processes need: not the arrays of threads, which they make for themselves."""
        return vars(self) | {"_scratch": [], "Y": None}

    def bundles(self) -> list[NDArray[np.int64]]:
        """Cut the nodes into runs of neighbours, most nodes that take long being alone."""
        tree = self.tree
        label_start, _ = self._points_of
        per_label = np.concatenate([[0], np.cumsum(np.diff(label_start)[tree.order])])
        first, last = tree.below[tree.child_start[:-1], 0], tree.below[tree.child_start[1:] - 1, 1]
        costs = (per_label[last] - per_label[first]) * -(-np.diff(tree.child_start) // BLOCK)
        ends = np.cumsum(costs)
        cuts = np.flatnonzero(np.diff(ends * BUNDLES // max(int(ends[-1]), 1))) + 1
        return np.split(np.arange(tree.n_nodes), cuts)

    def memory(self) -> int:
        """Return the bytes of the largest problem, that of the root: its rows, and dual variables and weights."""
        n_points, n_features = self.X.shape
        return int(8 * self.X.nnz + 4 * (BLOCK + 1) * (n_points + n_features))

    def train(self, node: int) -> TrainedNode:
        """Train the classifiers of a node's children on the points with a label below the node."""
        tree, options = self.tree, self.options
        first, end = int(tree.child_start[node]), int(tree.child_start[node + 1])
        below = read_only(tree.below[first:end])
        # Two arrays, over all points and over all features. Kernels clear what they used: a node touches few of either.
        slots = self._scratch.pop() if self._scratch else self._new_scratch()
        try:
            points, edge_start, edge_points = _points_below(*self._points_of, read_only(tree.order), below, slots[0])
            order = np.random.default_rng([self.seed, node]).permutation(points.size)
            X, features = _cut_out(*self._rows, points[order], np.float32(options.bias), slots[1])
        finally:
            self._scratch.append(slots)
        positions = np.empty_like(order)
        positions[order] = np.arange(order.size)
        counts = np.diff(edge_start)
        own, _ = self.weighting.coefficients(counts, self.X.shape[0])
        n_features = features.size + (options.bias != 0)
        problem = Problem(X, (edge_start, edge_points, positions), options.C * own, n_features)
        limits.check_norms(problem.norms, points[order])
        trained = np.ones(counts.size, np.bool_)
        limits.check_costs(options.C, problem.costs, trained, f"tree node {node}, child", problem.point_weights)
        return self._solved(problem, np.argsort(-counts, kind="stable"), features, node)

    def _new_scratch(self) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        return np.full(self.X.shape[0], -1, np.int32), np.full(self.X.shape[1], -1, np.int32)

    def _solved(self, problem: Problem, order: NDArray[np.intp], features: NDArray[np.int32], node: int) -> TrainedNode:
        gaps, bias = np.zeros(order.size), np.zeros(order.size, np.float32)
        entries: list[tuple[NDArray[Any], ...]] = []
        for start in range(0, order.size, BLOCK):
            children = order[start : start + BLOCK]
            solved = problem.solve(children, self.options, self.seed + node)
            limits.check_finite(solved.W, solved.gaps, children, f"tree node {node}, child", self.options.C)
            gaps[children] = solved.gaps[: children.size]
            if self.options.bias:
                bias[children] = solved.W[-1, : children.size] * np.float32(self.options.bias)
            entries.append(_kept(solved.W, features.size, children, np.float32(self.options.prune)))
        rows, kept_children, values = (np.concatenate(part) for part in zip(*entries, strict=True))
        sorted_features, starts, by_row, sorted_values = _by_feature(features, rows, kept_children, values)
        return TrainedNode(sorted_features, starts, by_row, sorted_values, bias, gaps)


def train_nodes(trainer: NodeTrainer, nodes: NDArray[np.int64]) -> dict[str, NDArray[Any]]:
    """Train some nodes and return their arrays end to end, each with the places where those of a node end."""
    trained = [trainer.train(int(node)) for node in nodes]
    arrays = {}
    for name, of_nodes in zip(TrainedNode._fields, zip(*trained, strict=True), strict=True):
        arrays[name] = np.concatenate(of_nodes)
        arrays[f"{name}.ends"] = np.cumsum([array.size for array in of_nodes])
    return arrays


def trained_nodes(arrays: dict[str, NDArray[Any]]) -> list[TrainedNode]:
    """Undo how `train_nodes` put arrays end to end."""
    fields = (np.split(arrays[name], arrays[f"{name}.ends"][:-1]) for name in TrainedNode._fields)
    return [TrainedNode(*of_node) for of_node in zip(*fields, strict=True)]


@njit(cache=True, nogil=True)
def _points_below(label_start, label_points, order, below, slot):
    """Return the points with a label below some edge, and for each edge the positions of its points among them."""
    n_edges = below.shape[0]
    most = 0
    for e in range(n_edges):
        for j in range(below[e, 0], below[e, 1]):
            most += label_start[order[j] + 1] - label_start[order[j]]
    points = np.empty(most, np.int32)
    edge_points = np.empty(most, np.int32)
    last_edge = np.full(most, -1, np.int32)  # so that a point with two labels below an edge counts once
    edge_start = np.zeros(n_edges + 1, np.int64)
    n = filled = 0
    for e in range(n_edges):
        for j in range(below[e, 0], below[e, 1]):
            for p in range(label_start[order[j]], label_start[order[j] + 1]):
                point = label_points[p]
                if slot[point] < 0:
                    slot[point] = n
                    points[n] = point
                    n += 1
                if last_edge[slot[point]] != e:
                    last_edge[slot[point]] = e
                    edge_points[filled] = slot[point]
                    filled += 1
        edge_start[e + 1] = filled
    for i in range(n):
        slot[points[i]] = -1
    return points[:n].copy(), edge_start, edge_points[:filled].copy()


@njit(cache=True, nogil=True)
def _cut_out(indptr, indices, data, points, bias, slot):
    """Return the rows of these points with renumbered features and the bias as the last one, and the features.

    Features are numbered by first appearance: frequent ones come early and so are close together in memory.
    """
    extra = 1 if bias != 0 else 0
    n = points.shape[0]
    start = np.zeros(n + 1, np.int64)
    for i in range(n):
        start[i + 1] = start[i] + indptr[points[i] + 1] - indptr[points[i]] + extra
    local, values = np.empty(start[n], np.uint32), np.empty(start[n], np.float32)
    features = np.empty(min(start[n], slot.shape[0]), np.int32)
    n_features = 0
    for i in range(n):
        target = start[i]
        for p in range(indptr[points[i]], indptr[points[i] + 1]):
            feature = indices[p]
            if slot[feature] < 0:
                slot[feature] = n_features
                features[n_features] = feature
                n_features += 1
            local[target] = slot[feature]
            values[target] = data[p]
            target += 1
    for f in range(n_features):
        slot[features[f]] = -1
    if extra:
        for i in range(n):
            local[start[i + 1] - 1] = n_features
            values[start[i + 1] - 1] = bias
    return (start, local, values), features[:n_features].copy()


@njit(cache=True, nogil=True)
def _kept(W, n_features, children, threshold):
    """Return feature, child and weight of the weights that are large enough to keep."""
    n = 0
    for f in range(n_features):
        for b in range(children.shape[0]):
            if abs(W[f, b]) >= threshold and W[f, b] != 0:
                n += 1
    rows, kept, values = np.empty(n, np.int32), np.empty(n, np.int32), np.empty(n, np.float32)
    n = 0
    for f in range(n_features):
        for b in range(children.shape[0]):
            if abs(W[f, b]) >= threshold and W[f, b] != 0:
                rows[n], kept[n], values[n] = f, children[b], W[f, b]
                n += 1
    return rows, kept, values


@njit(cache=True, nogil=True)
def _by_feature(features, rows, children, values):
    """Sort the entries by feature, ascending; within a feature they keep their order (block after block)."""
    rank = np.empty(features.shape[0], np.int64)
    by_id = np.argsort(features)
    for r in range(by_id.shape[0]):
        rank[by_id[r]] = r
    count = np.zeros(features.shape[0], np.int64)
    for e in range(rows.shape[0]):
        count[rank[rows[e]]] += 1
    used = np.flatnonzero(count)
    starts = np.zeros(used.shape[0] + 1, np.int64)
    copy_to(starts[1:], np.cumsum(count[used]))
    place = np.zeros(features.shape[0], np.int64)
    place[used] = starts[:-1]
    new_children, new_values = np.empty_like(children), np.empty_like(values)
    for e in range(rows.shape[0]):
        target = place[rank[rows[e]]]
        new_children[target], new_values[target] = children[e], values[e]
        place[rank[rows[e]]] += 1
    return features[by_id[used]], starts, new_children, new_values
