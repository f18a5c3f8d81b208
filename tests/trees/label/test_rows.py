"""Rows of weights: full or short, with children in one, two or four bytes, and as earlier versions saved them."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from longtail import Bonsai
from longtail.core.state import State
from longtail.errors import ModelError
from longtail.trees.label import search as search_module
from longtail.trees.label.rows import packed_rows
from longtail.trees.label.weights import TreeModel
from trees.label.plain import dense_weights, grouped_points


def one_node(n_children: int, table: np.ndarray) -> TreeModel:
    """Return a tree of one node that has these weights, (rows, children)."""
    at = [np.flatnonzero(row) for row in table]
    starts = np.concatenate([[0], np.cumsum([len(own) for own in at])])
    packed = packed_rows(starts, np.concatenate(at), table[table != 0], n_children)
    ones = np.ones(n_children, np.float32)
    rows = np.asarray([0, len(table)], np.int64), np.arange(len(table), dtype=np.int32)
    labels = np.arange(n_children, dtype=np.int32)
    return TreeModel.joined(np.asarray([0, n_children], np.int64), labels, 0 * ones, ones, *rows, [packed])


def some_table(n_children: int, shares: tuple[float, ...]) -> np.ndarray:
    rng = np.random.default_rng(n_children)
    table = rng.integers(1, 1000, (len(shares), n_children)).astype(np.int16)
    return np.where(rng.random(table.shape) < np.asarray(shares)[:, None], table, 0).astype(np.int16)


@pytest.mark.parametrize("n_children", [1, 2, 3, 40, 256, 257, 700, 65537])
@pytest.mark.parametrize("shares", [(1.0, 0.9, 1.0), (0.02, 0.9, 0.3), (0.01, 0.02, 0.05)])
def test_rows_hold_what_was_put_in(n_children, shares):
    table = some_table(n_children, shares)
    tree = one_node(n_children, table)
    tree.check(len(shares), n_children)
    np.testing.assert_array_equal(dense_weights(tree, len(shares)).T, table)
    found = np.zeros_like(table)
    for r in range(len(shares)):
        children, values = tree.row(0, r)
        found[r, children] = values
    np.testing.assert_array_equal(found, table)
    margins, rows = np.empty(n_children, np.float32), np.empty(len(shares), np.int64)
    values = np.asarray([0.5, 2, 4], np.float32)
    search_module._find(np.arange(len(shares), dtype=np.int32), tree.arrays(), 0, rows)
    np.testing.assert_array_equal(rows, np.arange(len(shares)))
    search_module._margins(np.asarray([0, len(shares)]), values, 0, tree.arrays(), 0, rows, margins)
    np.testing.assert_allclose(margins, values @ table, rtol=1e-6)


def test_a_row_that_is_mostly_zero_takes_less_than_a_full_one():
    assert one_node(200, some_table(200, (0.1, 0.1, 0.1))).words.size < 3 * 200 / 4
    assert one_node(200, some_table(200, (0.9, 0.9, 0.9))).is_dense.all()


def earlier(tree: TreeModel) -> dict[str, np.ndarray]:
    """Return the arrays of a tree as earlier versions saved them: nodes of two children are full."""
    arrays = tree.to_arrays()
    for name in ("words", "first_word"):
        del arrays[name]
    full = np.diff(tree.child_start) == 2
    dense, children, values, offsets, first_value, first_offset = [], [], [], [], [], []
    for v in range(tree.n_nodes):
        rows = [tree.row(v, r) for r in range(int(tree.row_start[v + 1] - tree.row_start[v]))]
        first_value.append(sum(part.size for part in (dense if full[v] else values)))
        first_offset.append(sum(part.size for part in offsets))
        if full[v]:
            tables = np.zeros((len(rows), 2), np.int16)
            for r, (own, weights) in enumerate(rows):
                tables[r, own] = weights
            dense.append(tables.ravel())
            continue
        children += [own for own, _ in rows]
        values += [weights for _, weights in rows]
        offsets.append(np.concatenate([[0], np.cumsum([own.size for own, _ in rows])]))
    empty = np.empty(0)
    return arrays | {
        "is_dense": full, "first_value": np.asarray(first_value, np.int64),
        "dense_values": np.concatenate([empty, *dense]).astype(np.int16),
        "first_offset": np.asarray(first_offset, np.int64),
        "offsets": np.concatenate([empty, *offsets]).astype(np.uint32),
        "sparse_children": np.concatenate([empty, *children]).astype(np.uint8),
        "sparse_values": np.concatenate([empty, *values]).astype(np.int16),
    }  # fmt: skip


X, Y = grouped_points()
FITTED = Bonsai(n_trees=1, n_children=5, max_leaf=3, prune=0.01).fit(X, Y)


def test_trees_of_earlier_versions_predict_the_same():
    expected = FITTED.predict(X, k=5)
    again = TreeModel.from_state(State(arrays=earlier(FITTED.trees_[0])))
    again.check(X.shape[1], Y.shape[1])
    model = Bonsai(n_trees=1, n_children=5, max_leaf=3, prune=0.01).fit(X, Y)
    model.trees_ = [again]
    found = model.predict(X, k=5)
    np.testing.assert_array_equal(found.labels, expected.labels)
    np.testing.assert_array_equal(found.scores, expected.scores)


@pytest.mark.parametrize("name", ["first_value", "first_offset", "offsets", "sparse_children"])
def test_earlier_trees_that_point_outside_their_arrays_are_refused(name):
    arrays = earlier(FITTED.trees_[0])
    arrays[name] = arrays[name].copy()
    arrays[name][0 if name.startswith("first") else -1] = 200 if name == "sparse_children" else 100_000
    with pytest.raises(ModelError):
        TreeModel.from_state(State(arrays=arrays))


@pytest.mark.parametrize("name", ["first_word", "first_offset", "offsets"])
def test_trees_that_point_outside_their_words_are_refused(name):
    tree = one_node(200, some_table(200, (0.1, 0.1, 0.1)))
    arrays = {key: array.copy() for key, array in tree.to_arrays().items()}
    arrays[name][-1] = 100_000
    with pytest.raises(ModelError, match="node 0"):
        TreeModel(**arrays).check(3, 200)


def with_first_child(tree: TreeModel, number: int) -> TreeModel:
    """Return a tree whose first row begins with another child, whose number may be of none."""
    arrays = {key: array.copy() for key, array in tree.to_arrays().items()}
    first = arrays["words"][:1].view(np.uint8)
    first[0] = number & 255
    if tree.child.size > 256:
        first[1] = number >> 8
    return TreeModel(**arrays)


def test_numbers_of_children_that_a_node_does_not_have_are_refused():
    tree = one_node(300, some_table(300, (0.1, 0.1, 0.1)))
    with_first_child(tree, 299).check(3, 300)
    with pytest.raises(ModelError, match="node 0"):
        with_first_child(tree, 300).check(3, 300)


def test_numbers_of_one_byte_lead_nowhere_if_the_node_has_no_such_child():
    table = some_table(200, (0.1, 0.1, 0.1))
    altered = with_first_child(one_node(200, table), 255)
    altered.check(3, 200)
    table[0, np.flatnonzero(table[0])[0]] = 0
    point = sparse.csr_matrix(np.ones((1, 3), np.float32))
    found, expected = (
        search_module.search(point, [tree], 200, n_labels=200, beam=None, power=2, n_jobs=1)
        for tree in (altered, one_node(200, table))
    )
    np.testing.assert_array_equal(found.labels, expected.labels)
    np.testing.assert_array_equal(found.scores, expected.scores)
