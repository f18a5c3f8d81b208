"""A label tree as flat arrays, and its growth by repeated clustering."""

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
    """Node 0 is the root, and a node's id is above its parent's. The children of node v are edges
    `child_start[v]` to `child_start[v + 1]`; `child[e]` is a label (>= 0) or the node `-1 - child[e]`.

    `order` lists the labels so that those below an edge stand together: `order[below[e, 0] : below[e, 1]]`.
    """

    child_start: NDArray[np.int64]
    child: Ints
    order: Ints
    below: NDArray[np.int64]

    @property
    def n_nodes(self) -> int:
        return int(self.child_start.size - 1)


def levels_of(child_start: NDArray[np.int64], child: Ints) -> Ints:
    """The level of each node: 0 for the root."""
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
    """The tree of these labels: nodes with more than `max_leaf` labels are split, level by level, nodes in parallel.

    split: the cluster of each label it is given. A node at `max_depth` is a leaf whatever its size. A cluster of one
    label needs no node: the label becomes a child itself.
    """

    def groups_of(work: tuple[Ints, int]) -> Groups:
        members, first = work
        if members.size <= max_leaf or depth == max_depth:
            return [members[i : i + 1] for i in range(members.size)]
        clusters = split(members, np.random.default_rng([seed, depth, first]))
        groups = [members[clusters == c] for c in np.unique(clusters)]
        # Labels that all look the same cannot be told apart by any clustering: cut them evenly.
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
    """Flat arrays from, for each level, the groups of labels of each node's children; a group of one is a label."""
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
    """Where the labels below each edge stand when siblings follow each other."""
    below = np.zeros((child.size, 2), np.int64)
    first_of_node = np.zeros(child_start.size - 1, np.int64)
    for node, (first, end) in enumerate(pairwise(child_start.tolist())):  # parents come before their children
        ends = first_of_node[node] + np.cumsum(sizes[first:end])
        below[first:end, 0], below[first:end, 1] = ends - sizes[first:end], ends
        nodes = -1 - child[first:end]
        first_of_node[nodes[nodes >= 0]] = below[first:end, 0][nodes >= 0]
    return below
