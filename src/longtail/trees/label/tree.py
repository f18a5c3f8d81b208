"""Label trees as flat arrays, grown by repeated clustering."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from longtail.core.threads import in_threads

Ints = NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class LabelTree:
    """Label tree as flat arrays. Node 0 is the root; a node's id is higher than its parent's.

    The children of node v are the edges `child_start[v]` to `child_start[v + 1]`; `child[e]` is a label (>= 0) or the
    node `-1 - child[e]`. `order` lists the labels such that those below edge e are
    `order[below[e, 0] : below[e, 1]]`.
    """

    child_start: NDArray[np.int64]
    child: Ints
    order: Ints
    below: NDArray[np.int64]

    @property
    def n_nodes(self) -> int:
        return int(self.child_start.size - 1)


def levels_of(child_start: NDArray[np.int64], child: Ints) -> Ints:
    """Return the level of each node; the root has level 0."""
    levels = np.zeros(child_start.size - 1, np.int32)
    for node, (first, end) in enumerate(pairwise(child_start.tolist())):  # parents come before their children
        nodes = -1 - child[first:end]
        levels[nodes[nodes >= 0]] = levels[node] + 1
    return levels


Groups = list[Ints]
Split = Callable[[Ints, np.random.Generator], NDArray[np.int64]]


def grow(
    labels: Ints, split: Split, *, max_leaf: int, max_depth: int | None, seed: int, n_jobs: int | None
) -> LabelTree:
    """Grow a label tree, level by level, the nodes of a level in parallel.

    Parameters
    ----------
    labels : array of int32
        Labels of the tree.
    split : callable
        Returns the cluster of each label, given labels and a random generator.
    max_leaf : int
        Nodes with more labels are split.
    max_depth : int or None
        Levels of nodes; a node at the last level is a leaf, whatever its size. None for no limit.
    seed : int
        Seed of the splits.
    n_jobs : int or None
        Number of threads.

    Returns
    -------
    LabelTree
        A cluster of one label has no node: the label itself is the child.
    """

    def groups_of(work: tuple[Ints, int]) -> Groups:
        members, first = work
        if members.size <= max_leaf or depth == max_depth:
            return [members[i : i + 1] for i in range(members.size)]
        clusters = split(members, np.random.default_rng([seed, depth, first]))
        groups = [members[clusters == c] for c in np.unique(clusters)]
        # No clustering can separate labels with equal representations: halve them.
        return groups if len(groups) > 1 else [np.asarray(half) for half in np.array_split(members, 2)]

    depth = 1
    levels: list[list[Groups]] = []
    current: list[tuple[Ints, int]] = [(labels, 0)]
    while current:
        with in_threads(groups_of, current, n_jobs=n_jobs) as groups:
            levels.append(list(groups))
        current = [
            (group, first) for first, group in enumerate(g for groups in levels[-1] for g in groups) if group.size > 1
        ]
        depth += 1
    return assemble(levels)


def assemble(levels: list[list[Groups]]) -> LabelTree:
    """Return the tree whose levels list, per node, the labels below each child; a group of one is a label itself."""
    child_start, child, sizes = [0], [], []
    n_nodes = 1
    for groups_of_nodes in levels:
        for groups in groups_of_nodes:
            for group in groups:
                sizes.append(group.size)
                if group.size == 1:
                    child.append(int(group[0]))
                else:
                    child.append(-1 - n_nodes)
                    n_nodes += 1
            child_start.append(len(child))
    below = _ranges(np.asarray(child_start, np.int64), np.asarray(child, np.int32), np.asarray(sizes, np.int64))
    children = np.asarray(child, np.int32)
    order = np.empty(int((children >= 0).sum()), np.int32)
    order[below[children >= 0, 0]] = children[children >= 0]
    return LabelTree(np.asarray(child_start, np.int64), children, order, below)


def _ranges(child_start: NDArray[np.int64], child: Ints, sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the range of each edge's labels in `order`, where siblings follow each other."""
    below = np.zeros((child.size, 2), np.int64)
    first_of_node = np.zeros(child_start.size - 1, np.int64)
    for node, (first, end) in enumerate(pairwise(child_start.tolist())):  # parents come before their children
        ends = first_of_node[node] + np.cumsum(sizes[first:end])
        below[first:end, 0], below[first:end, 1] = ends - sizes[first:end], ends
        nodes = -1 - child[first:end]
        first_of_node[nodes[nodes >= 0]] = below[first:end, 0][nodes >= 0]
    return below
