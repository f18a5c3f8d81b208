"""Counts of missing labels from a label hierarchy: a point with a descendant of label l should also have l."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from longtail.core.inputs import check_labels
from longtail.core.parameters import check_whole
from longtail.errors import DataError

_POINTS_AT_ONCE = 20_000  # bounds the (points x ancestors) product in memory


class HierarchyCounts(NamedTuple):
    """Observed and complete counts of the labels with enough descendants.

    Attributes
    ----------
    labels : (m,) array of int
        Ids of these labels.
    counts : (m,) array of int
        n_l, the number of points with label l.
    complete_counts : (m,) array of int
        n*_l, the number of points that have label l or a descendant of it.
    """

    labels: NDArray[np.int64]
    counts: NDArray[np.int64]
    complete_counts: NDArray[np.int64]


def hierarchy_counts(
    Y: Any, label_names: Sequence[str], parents: Mapping[str, Sequence[str]], *, min_descendants: int = 5
) -> HierarchyCounts:
    """Count observed and complete labels with a label hierarchy.

    Parameters
    ----------
    Y : (n, L) sparse or dense 0/1 matrix, or one list of label ids per point
        Observed labels.
    label_names : sequence of L str
        Names of the columns of `Y`.
    parents : mapping of str to sequence of str
        Names of the parents per label name; a label may have several. The hierarchy may have nodes that are not in
        `label_names`: no point has them, but they connect the labels below and above them.
    min_descendants : int, default 5
        Only labels with at least this many descendants are counted, nodes that are not in `label_names` included. The
        paper uses more than 4, "for robust estimation".

    Returns
    -------
    HierarchyCounts
        Input of `fit_propensities`.

    Raises
    ------
    DataError
        If the hierarchy has a cycle, or a label name occurs twice.

    Notes
    -----
    n*_l = n_l + number of points with a descendant of l but without l (Jain et al. 2016, section 5).
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
        observed = block[:, labels]
        missing += np.bincount((implied > observed).tocsr().indices, minlength=labels.size)
    counts = np.bincount(Y.indices, minlength=len(label_names))[labels].astype(np.int64)
    return HierarchyCounts(labels, counts, counts + missing)


def _ancestors(label_names: Sequence[str], parents: Mapping[str, Sequence[str]]) -> sparse.csr_matrix:
    """Return a (nodes, nodes) boolean matrix, True where the column is an ancestor of the row; labels come first."""
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
    while True:  # each pass doubles the length of the paths, so there are log2(depth) passes
        further = reached + reached @ reached
        if further.nnz == reached.nnz:
            return sparse.csr_matrix(reached)
        reached = further


def _refuse_cycles(edges: sparse.csr_matrix, names: list[str]) -> None:
    own_parent = np.flatnonzero(edges.diagonal())
    if own_parent.size:
        raise DataError(f"the label hierarchy has a cycle: {names[own_parent[0]]!r} is its own parent")
    from scipy.sparse import csgraph  # here: it takes long to load, and predicting needs none of it

    _, component = csgraph.connected_components(edges, directed=True, connection="strong")
    sizes = np.bincount(component)
    if sizes.size and sizes.max() > 1:
        members = np.flatnonzero(component == int(np.argmax(sizes)))
        shown = ", ".join(repr(names[i]) for i in members[:5]) + (", ..." if members.size > 5 else "")
        raise DataError(f"the label hierarchy has a cycle: each of {shown} is an ancestor of the others")
