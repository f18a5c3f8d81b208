"""Grow one tree: divide nodes from the root down until they are small or cannot be divided."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from longtail.core.memory import read_only
from longtail.trees.instance.forest import Forest
from longtail.trees.instance.node import leaf, make_buffers, split


@dataclass(frozen=True)
class GrowOptions:
    """Parameters of a tree; `FastXML` documents what they mean and has the defaults.

    Parameters
    ----------
    max_leaf : int
        Nodes with more points are divided.
    labels_per_leaf : int
        Labels that a leaf keeps, at most.
    C : float
        Cost of the loss of the hyperplanes.
    bias : float
        Value of the constant feature; 0 for none.
    """

    max_leaf: int
    labels_per_leaf: int
    C: float
    bias: float


class Grower:
    """Training data in the form that the kernels read; grows any tree on it.

    Parameters
    ----------
    X : (n, D) csr_matrix of float32
        Features.
    Y : (n, L) csr_matrix
        Label indicator.
    options : GrowOptions
        Parameters of the trees.
    label_weights : (L,) array
        1 / p_l, or 1.
    seed : int
        Seed of the random starts.
    """

    def __init__(
        self,
        X: sparse.csr_matrix,
        Y: sparse.csr_matrix,
        options: GrowOptions,
        *,
        label_weights: NDArray[np.floating],
        seed: int,
    ) -> None:
        self.options, self.seed = options, seed
        self.n_points, self.n_features = X.shape
        self.n_labels = Y.shape[1]
        self._X = tuple(map(read_only, (X.indptr.astype(np.int64), X.indices, X.data)))
        self._label_weights = read_only(label_weights.astype(np.float32))
        gains = self._label_weights[Y.indices] * np.repeat(inverse_ideal_dcg(np.diff(Y.indptr)), np.diff(Y.indptr))
        self._labels = tuple(map(read_only, (Y.indptr.astype(np.int64), Y.indices, gains.astype(np.float32))))

    def grow(self, number: int) -> Forest:
        """Grow tree `number`; it depends on the data, the options, the seed and the number only."""
        options = self.options
        buffers = make_buffers(self.n_features, self.n_labels)
        state = np.random.SeedSequence([self.seed, number]).generate_state(1, np.uint64) | np.uint64(1)
        tree = _Tree()
        waiting = [(np.arange(self.n_points, dtype=np.int32), -1, 0)]
        while waiting:
            points, parent, side = waiting.pop()
            node = tree.add(parent, side)
            if points.size > options.max_leaf:
                features, weights, intercept, right = split(
                    points, self._X, self._labels, options.C, np.float32(options.bias), buffers, state
                )
                if right.any() and not right.all():
                    tree.set_hyperplane(features, weights, intercept)
                    waiting += [(points[right], node, 1), (points[~right], node, 0)]
                    continue
            labels, values = leaf(points, self._labels, self._label_weights, options.labels_per_leaf, buffers)
            tree.set_leaf(labels, values)
        return tree.to_forest(self.n_features, self.n_labels)


def grow_tree(grower: Grower, number: int) -> dict[str, NDArray[Any]]:
    """Grow tree `number` and return it as arrays; `Forest.from_arrays` undoes that."""
    return grower.grow(number).to_state().arrays


def inverse_ideal_dcg(n_labels: NDArray[np.integer]) -> NDArray[np.float64]:
    """Return I = 1 / sum_{r <= n} 1/log2(r + 1) for points with n labels (Jain et al. 2016, table 1); 0 for n = 0."""
    ideal = np.concatenate([[np.inf], np.cumsum(1 / np.log2(np.arange(n_labels.max(initial=0)) + 2.0))])
    return np.asarray(1 / ideal[n_labels])


@dataclass
class _Tree:
    """A tree while it grows: nodes in the order of their visits, each with a hyperplane or the labels of a leaf."""

    children: list[list[int]] = field(default_factory=list)
    intercepts: list[float] = field(default_factory=list)
    hyperplanes: list[tuple[NDArray, NDArray]] = field(default_factory=list)
    leaves: list[tuple[NDArray, NDArray]] = field(default_factory=list)

    def add(self, parent: int, side: int) -> int:
        node = len(self.children)
        self.children.append([-1, -1])
        if parent >= 0:
            self.children[parent][side] = node
        return node

    def set_hyperplane(self, features: NDArray, weights: NDArray, intercept: float) -> None:
        self.hyperplanes.append((features, weights))
        self.intercepts.append(intercept)
        self.leaves.append(_NOTHING)

    def set_leaf(self, labels: NDArray, values: NDArray) -> None:
        self.hyperplanes.append(_NOTHING)
        self.intercepts.append(0.0)
        self.leaves.append((labels, values))

    def to_forest(self, n_features: int, n_labels: int) -> Forest:
        return Forest(
            np.zeros(1, np.int32),
            np.asarray(self.children, np.int32),
            np.asarray(self.intercepts, np.float32),
            _rows(self.hyperplanes, n_features),
            _rows(self.leaves, n_labels),
        )


_NOTHING = (np.empty(0, np.int32), np.empty(0, np.float32))


def _rows(parts: list[tuple[NDArray, NDArray]], width: int) -> sparse.csr_matrix:
    indptr = np.concatenate([[0], np.cumsum([indices.size for indices, _ in parts])])
    indices, values = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    return sparse.csr_matrix((values, indices, indptr), shape=(len(parts), width))
