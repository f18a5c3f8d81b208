"""Build a label tree from a hierarchy that the user gives: the parent of each label."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from longtail.errors import DataError
from longtail.trees.label.tree import Groups, Ints, LabelTree, assemble

_NO_PARENT = -1


def tree_from_hierarchy(
    hierarchy: Any, n_labels: int, label_names: Sequence[str] | None, with_points: NDArray[np.bool_]
) -> LabelTree:
    """Return the tree in which every label with labels below it is a node, and also a child of that node.

    Parameters
    ----------
    hierarchy : array_like or mapping
        Array: one parent id per label, -1 for none. Mapping: the parent of every label, by name if there are label
        names, else by id; None or an empty list for a root, and of a list of parents the first counts.
    n_labels : int
        Number of labels.
    label_names : sequence of str or None
        Names of the labels.
    with_points : (n_labels,) array of bool
        Which labels have training points; the others are left out.

    Returns
    -------
    LabelTree
        Nodes with a single child are replaced by that child.

    Raises
    ------
    DataError
        If a label is missing or unknown, or the hierarchy has a cycle.
    """
    parents = _as_array(hierarchy, n_labels, label_names)
    _refuse_cycles(parents, label_names)
    below = _labels_below(parents, with_points)
    roots = np.flatnonzero((parents == _NO_PARENT) & (np.array([group.size for group in below]) > 0))
    children = _children(parents)
    return assemble(_levels(roots.tolist(), children, below, with_points))


def _as_array(hierarchy: Any, n_labels: int, names: Sequence[str] | None) -> NDArray[np.int64]:
    if not isinstance(hierarchy, Mapping):
        return _checked_ids(np.asarray(hierarchy), n_labels)
    ids: dict[Any, int] = (
        {name: i for i, name in enumerate(names)}
        if names is not None
        else {key: i for i in range(n_labels) for key in (i, str(i))}  # JSON has only strings as keys
    )
    parents = np.full(n_labels, _NO_PARENT - 1)
    for label, above in hierarchy.items():
        if label not in ids:
            raise DataError(f"the hierarchy names the label {label!r}, which is not in the data")
        if not isinstance(above, str | int | np.integer | type(None)):
            above = above[0] if len(above) else None  # a label has only one place in the tree
        if above is not None and above not in ids:
            raise DataError(f"the hierarchy puts {label!r} below {above!r}, which is not a label of the data")
        parents[ids[label]] = _NO_PARENT if above is None else ids[above]
    missing = np.flatnonzero(parents < _NO_PARENT)
    if missing.size:
        shown = ", ".join(repr(_name(label, names)) for label in missing[:5])
        raise DataError(
            f"the hierarchy lacks {missing.size} of {n_labels} labels ({shown}{', ...' if missing.size > 5 else ''}); "
            "give every label a parent, or None"
        )
    return parents


def _checked_ids(parents: NDArray[Any], n_labels: int) -> NDArray[np.int64]:
    if parents.dtype.kind not in "iu" or parents.shape != (n_labels,):
        raise DataError(
            "a hierarchy given as an array must have one parent id (a whole number, -1 for none) for each of the "
            f"{n_labels} labels; got {parents.dtype} of shape {parents.shape}"
        )
    wrong = np.flatnonzero((parents < _NO_PARENT) | (parents >= n_labels))
    if wrong.size:
        raise DataError(f"the parent of label {wrong[0]} is {parents[wrong[0]]}, but must lie in -1..{n_labels - 1}")
    return parents.astype(np.int64)


def _refuse_cycles(parents: NDArray[np.int64], names: Sequence[str] | None) -> None:
    above = np.arange(parents.size)
    for _ in range(parents.size):  # every label goes up one step per round; without a cycle all reach a root
        above = np.where(above >= 0, parents[above], _NO_PARENT)
        if (above < 0).all():
            return
    stuck = int(above[above >= 0][0])
    raise DataError(f"the hierarchy has a cycle: {_name(stuck, names)!r} is above itself")


def _name(label: int, names: Sequence[str] | None) -> Any:
    return int(label) if names is None else names[label]


def _children(parents: NDArray[np.int64]) -> list[list[int]]:
    children: list[list[int]] = [[] for _ in range(parents.size)]
    for label, parent in enumerate(parents.tolist()):
        if parent >= 0:
            children[parent].append(label)
    return children


def _labels_below(parents: NDArray[np.int64], with_points: NDArray[np.bool_]) -> list[Ints]:
    """Return for each label the labels with points at or below it."""
    found: list[list[int]] = [[] for _ in range(parents.size)]
    for label in np.flatnonzero(with_points).tolist():
        above = label
        while above >= 0:
            found[above].append(label)
            above = int(parents[above])
    return [np.asarray(group, np.int32) for group in found]


def _levels(roots: list[int], children: list[list[int]], below: list[Ints], with_points: Any) -> list[list[Groups]]:
    """Return the groups of labels of each node, level by level, as `assemble` takes them."""

    def parts(label: int) -> list[tuple[int | None, Ints]]:
        """Return the children of a label's node as (root of the subtree, or None for the label itself; labels)."""
        own = [(None, np.asarray([label], np.int32))] if with_points[label] else []
        return [*own, *((child, below[child]) for child in children[label] if below[child].size)]

    def settled(level: list[tuple[int | None, Ints]]) -> list[tuple[int | None, Ints]]:
        """Replace a node that has a single child by this child."""
        while len(level) == 1 and level[0][0] is not None and level[0][1].size > 1:
            level = parts(level[0][0])
        return level

    levels: list[list[Groups]] = []
    nodes = [settled([(root, below[root]) for root in roots])]
    while nodes:
        levels.append([[group for _, group in node] for node in nodes])
        nodes = [
            settled(parts(label)) for node in nodes for label, group in node if group.size > 1 and label is not None
        ]
    return levels
