"""Trees from hierarchies that users give."""

from __future__ import annotations

import numpy as np
import pytest

from longtail import Bonsai, Parabel
from longtail.errors import DataError, ParameterError
from longtail.trees.label.hierarchy import tree_from_hierarchy
from trees.label.plain import grouped_points

NAMES = ["animals", "cats", "dogs", "plants", "trees", "oaks", "stones"]
PARENTS = {
    "animals": None, "cats": "animals", "dogs": ["animals"], "plants": [], "trees": ["plants", "stones"],
    "oaks": "trees", "stones": None,
}  # fmt: skip
ALL = np.ones(7, bool)


def shape(tree, node=0):
    """Return the tree as nested lists of labels."""
    edges = range(tree.child_start[node], tree.child_start[node + 1])
    return [int(tree.child[e]) if tree.child[e] >= 0 else shape(tree, -1 - tree.child[e]) for e in edges]


def test_a_label_with_others_below_it_is_a_node_and_its_own_child():
    expected = [[0, 1, 2], [3, [4, 5]], 6]
    assert shape(tree_from_hierarchy(PARENTS, 7, NAMES, ALL)) == expected
    assert shape(tree_from_hierarchy([-1, 0, 0, -1, 3, 4, -1], 7, None, ALL)) == expected
    assert shape(tree_from_hierarchy({i: p if p >= 0 else None for i, p in enumerate([-1, 0, 0, -1, 3, 4, -1])},
                                     7, None, ALL)) == expected  # fmt: skip


def test_labels_without_points_and_nodes_without_choice_are_left_out():
    seen = np.array([False, True, True, False, False, True, False])
    assert shape(tree_from_hierarchy(PARENTS, 7, NAMES, seen)) == [[1, 2], 5]
    only_cats_and_dogs = np.array([False, True, True, False, False, False, False])
    assert shape(tree_from_hierarchy(PARENTS, 7, NAMES, only_cats_and_dogs)) == [1, 2]
    assert shape(tree_from_hierarchy(PARENTS, 7, NAMES, np.arange(7) == 5)) == [5]


@pytest.mark.parametrize(
    ("hierarchy", "names", "message"),
    [
        ({**PARENTS, "animals": "dogs"}, NAMES, "cycle: '(animals|dogs|cats)' is above itself"),
        ({**PARENTS, "animals": "animals"}, NAMES, "cycle: 'animals'"),
        ({**PARENTS, "birds": "animals"}, NAMES, "names the label 'birds', which is not in the data"),
        ({**PARENTS, "cats": "beasts"}, NAMES, "'cats' below 'beasts', which is not a label"),
        ({"cats": "animals"}, NAMES, r"lacks 6 of 7 labels \('animals', 'dogs', .*\.\.\."),
        ([-1, 0, 0], None, "each of the 7"),
        ([-1, 0, 0, -1, 3, 4, 7], None, r"parent of label 6 is 7, but must lie in -1\.\.6"),
        ([-1.0] * 7, None, "whole number"),
        ([1, 0, -1, -1, -1, -1, -1], None, "cycle: [01] "),
    ],
)
def test_wrong_hierarchies_are_refused(hierarchy, names, message):
    with pytest.raises(DataError, match=message):
        tree_from_hierarchy(hierarchy, 7, names, ALL)


@pytest.mark.parametrize("model", [Parabel, Bonsai])
def test_models_train_along_a_hierarchy_and_keep_it(model, tmp_path):
    from longtail import load_model

    X, Y = grouped_points()
    names = [f"label {i}" for i in range(24)]
    parents = {name: None if i < 4 else names[i % 4] for i, name in enumerate(names)}  # the four groups
    fitted = model(n_trees=1, hierarchy=parents).fit(X, Y, label_names=names)
    assert shape(fitted.trees_[0]) == [list(range(g, 24, 4)) for g in range(4)]
    best = fitted.predict(X, k=1).labels[:, 0]
    assert np.asarray(Y[np.arange(300), best]).mean() > 0.97
    fitted.save(tmp_path / "m")
    loaded = load_model(tmp_path / "m")
    assert loaded.hierarchy == parents
    np.testing.assert_array_equal(loaded.predict(X, k=1).labels[:, 0], best)
    with pytest.raises(ParameterError, match="n_trees is 3, but a hierarchy is one tree"):
        model(hierarchy=parents).fit(X, Y, label_names=names)
