"""How often each label is missing, told by a label hierarchy: a point with a descendant of l should carry l."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse import csgraph

from longtail.core.estimator import check_whole
from longtail.core.inputs import check_labels
from longtail.errors import DataError

_POINTS_AT_ONCE = 20_000  # bounds the (points x ancestors) product that is in memory at a time


class HierarchyCounts(NamedTuple):
    """For each label with enough descendants: its id, n_l, and n*_l."""

    labels: NDArray[np.int64]
    counts: NDArray[np.int64]
    complete_counts: NDArray[np.int64]


def hierarchy_counts(
    Y: Any, label_names: Sequence[str], parents: Mapping[str, Sequence[str]], *, min_descendants: int = 5
) -> HierarchyCounts:
    """n_l and n*_l = n_l + #points with a descendant of l but without l (Jain et al. 2016, section 5).

    parents: for a label's name the names of its parents; a label may have several, and the hierarchy may have nodes
    that are not in `label_names` (no point carries them; what lies below and above them stays connected). Given are
    the labels with at least `min_descendants` descendants, the hierarchy's own nodes included; the paper asks for more
    than 4, "for robust estimation".
    """
    check_whole("min_descendants", min_descendants, 1)
    Y = check_labels(Y, n_labels=len(label_names))
    ancestors = _ancestors(label_names, parents)
    descendants = np.bincount(ancestors.indices, minlength=ancestors.shape[1])[: len(label_names)]
    labels = np.flatnonzero(descendants >= min_descendants)
    ancestor_of = ancestors[: len(label_names), labels]
    carried = sparse.csr_matrix(Y, dtype=np.bool_)
    missing = np.zeros(labels.size, dtype=np.int64)
    for start in range(0, Y.shape[0], _POINTS_AT_ONCE):
        block = carried[start : start + _POINTS_AT_ONCE]
        implied = block @ ancestor_of
        noted = block[:, labels]
        missing += np.bincount((implied > noted).tocsr().indices, minlength=labels.size)
    counts = np.bincount(Y.indices, minlength=len(label_names))[labels].astype(np.int64)
    return HierarchyCounts(labels, counts, counts + missing)


def _ancestors(label_names: Sequence[str], parents: Mapping[str, Sequence[str]]) -> sparse.csr_matrix:
    """(nodes, nodes) boolean: column a is an ancestor of row d; the labels come first, in their order."""
    names = list(label_names)
    node = {name: i for i, name in enumerate(names)}
    if len(node) < len(names):
        twice = next(name for i, name in enumerate(names) if node[name] != i)
        raise DataError(f"the label name {twice!r} occurs more than once")
    children, above = [], []
    for child, its_parents in parents.items():
        if isinstance(its_parents, str):
            raise DataError(f"the parents of {child!r} must be a list of names, not one string")
        for parent in its_parents:
            for name in (child, parent):
                if name not in node:
                    node[name] = len(names)
                    names.append(name)
            children.append(node[child])
            above.append(node[parent])
    edges = sparse.csr_matrix((np.ones(len(above), np.bool_), (children, above)), shape=(len(names), len(names)))
    _refuse_cycles(edges, names)
    reached = edges
    while True:  # each turn doubles the length of the paths, so there are log2(depth) turns
        further = reached + reached @ reached
        if further.nnz == reached.nnz:
            return sparse.csr_matrix(reached)
        reached = further


def _refuse_cycles(edges: sparse.csr_matrix, names: list[str]) -> None:
    own_parent = np.flatnonzero(edges.diagonal())
    if own_parent.size:
        raise DataError(f"the label hierarchy has a cycle: {names[own_parent[0]]!r} is its own parent")
    _, component = csgraph.connected_components(edges, directed=True, connection="strong")
    sizes = np.bincount(component)
    if sizes.size and sizes.max() > 1:
        members = np.flatnonzero(component == int(np.argmax(sizes)))
        shown = ", ".join(repr(names[i]) for i in members[:5]) + (", ..." if members.size > 5 else "")
        raise DataError(f"the label hierarchy has a cycle: each of {shown} is an ancestor of the others")
