"""Label trees as earlier versions saved them: a node was full as a whole, or named the child of every weight."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from longtail.core.check_arrays import Types, check_starts, check_within
from longtail.core.state import State
from longtail.errors import ModelError
from longtail.trees.label.rows import packed_rows


def earlier_form(state: State) -> tuple[Any, ...]:
    """Return what `TreeModel.joined` takes, from the arrays of a tree in the earlier form; the weights are the same."""
    n_edges = state.array("child", np.int32, (None,)).size
    n_nodes = state.array("is_dense", np.bool_, (None,)).size
    wanted: dict[str, tuple[Types, int | None]] = {
        "child_start": (np.int64, n_nodes + 1), "child": (np.int32, n_edges), "bias": (np.float32, n_edges),
        "scale": (np.float32, n_edges), "row_start": (np.int64, n_nodes + 1), "features": (np.int32, None),
        "is_dense": (np.bool_, n_nodes), "first_value": (np.int64, n_nodes), "dense_values": (np.int16, None),
        "first_offset": (np.int64, n_nodes), "offsets": (np.uint32, None),
        "sparse_children": ((np.uint8, np.uint16, np.uint32), None), "sparse_values": (np.int16, None),
    }  # fmt: skip
    arrays = {name: np.asarray(state.array(name, types, (size,))) for name, (types, size) in wanted.items()}
    check_starts("child_start", arrays["child_start"], n_edges)
    check_starts("row_start", arrays["row_start"], arrays["features"].size)
    if n_nodes < 1 or arrays["sparse_children"].size != arrays["sparse_values"].size:
        raise ModelError("the arrays sparse_children and sparse_values must have the same length")
    rows = [_packed_node(arrays, node) for node in range(n_nodes)]
    return *(arrays[name] for name in ("child_start", "child", "bias", "scale", "row_start", "features")), rows


def _packed_node(arrays: dict[str, NDArray[Any]], node: int) -> tuple[NDArray[np.int16], NDArray[np.uint32]]:
    n_children, n_rows = (int(arrays[name][node + 1] - arrays[name][node]) for name in ("child_start", "row_start"))
    first = int(arrays["first_value"][node])
    if arrays["is_dense"][node]:
        values = arrays["dense_values"][max(first, 0) : first + n_rows * n_children]
        _check(values.size == n_rows * n_children, node)
        return values, np.empty(0, np.uint32)
    at = int(arrays["first_offset"][node])
    starts = arrays["offsets"][max(at, 0) : at + n_rows + 1].astype(np.int64)
    _check(bool(starts.size == n_rows + 1 and first >= 0 and starts[0] == 0 and (np.diff(starts) >= 0).all()), node)
    here = slice(first, first + int(starts[-1]))
    children, values = arrays["sparse_children"][here], arrays["sparse_values"][here]
    _check(bool(values.size == int(starts[-1]) and (np.diff(starts) <= n_children).all()), node)
    check_within("sparse_children", children, 0, n_children)
    return packed_rows(starts, children, values, n_children)


def _check(right: bool, node: int) -> None:
    if not right:
        raise ModelError(f"the weights of node {node} are outside the arrays of weights")
