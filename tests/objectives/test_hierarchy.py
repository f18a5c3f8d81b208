from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from longtail.errors import DataError, ParameterError
from longtail.objectives import hierarchy, hierarchy_counts

# europe <- (italy <- (rome, milan), france); "world" and "west" are in the hierarchy, but no point carries them.
NAMES = ["europe", "italy", "rome", "milan", "france", "law"]
PARENTS = {"europe": ["world"], "italy": ["europe"], "rome": ["italy"], "milan": ["west"], "west": ["italy"]} | {
    "france": ["europe"]
}


def slow_counts(Y: np.ndarray, names: list[str], parents: dict[str, list[str]], minimum: int) -> dict[int, list[int]]:
    """The same by walking up from every label of every point."""

    def above(name: str) -> set[str]:
        return {name for parent in parents.get(name, []) for name in {parent, *above(parent)}}

    every = {*names, *parents, *(parent for row in parents.values() for parent in row)}
    result = {}
    for label, name in enumerate(names):
        below = {other for other in every if name in above(other)}
        if len(below) < minimum:
            continue
        has_below = Y[:, [i for i, other in enumerate(names) if other in below]].any(axis=1)
        result[label] = [int(Y[:, label].sum()), int(Y[:, label].sum() + (has_below & ~Y[:, label]).sum())]
    return result


def test_by_hand() -> None:
    #                eu it ro mi fr law
    Y = np.array(
        [
            [1, 1, 1, 0, 0, 0],  # complete
            [0, 0, 1, 0, 0, 1],  # rome without italy and europe
            [0, 0, 1, 1, 0, 0],  # twice the same: counts once
            [0, 0, 0, 1, 0, 0],  # milan, through a node that no point carries
            [1, 0, 0, 0, 1, 0],
            [0, 1, 0, 0, 0, 0],  # italy without europe
            [0, 0, 0, 0, 0, 1],
        ]
    )
    found = hierarchy_counts(Y, NAMES, PARENTS, min_descendants=3)
    assert found.labels.tolist() == [0, 1]  # europe has 5 below it, italy rome, milan and west
    assert found.counts.tolist() == [2, 2]
    assert found.complete_counts.tolist() == [6, 5]
    assert hierarchy_counts(Y, NAMES, PARENTS).labels.tolist() == [0]
    assert hierarchy_counts(Y, NAMES, PARENTS, min_descendants=6).labels.size == 0


@pytest.mark.parametrize("seed", range(5))
def test_equals_the_slow_walk(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hierarchy, "_POINTS_AT_ONCE", 7)
    rng = np.random.default_rng(seed)
    names = [f"label {i}" for i in range(40)]
    nodes = [*names, *(f"hidden {i}" for i in range(10))]
    order = rng.permutation(nodes).tolist()  # a node's parents come earlier in this order: a DAG, not only a tree
    parents = {
        name: rng.choice(order[:i], size=min(i, rng.integers(0, 3)), replace=False).tolist()
        for i, name in enumerate(order)
        if i
    }
    Y = rng.random((60, 40)) < 0.06
    found = hierarchy_counts(sparse.csr_matrix(Y, dtype=np.float32), names, parents, min_descendants=2)
    slow = slow_counts(Y, names, parents, 2)
    assert found.labels.tolist() == list(slow)
    assert np.column_stack([found.counts, found.complete_counts]).tolist() == list(slow.values())


def test_a_long_chain() -> None:
    names = [f"n{i}" for i in range(300)]
    parents = {names[i + 1]: [names[i]] for i in range(299)}
    found = hierarchy_counts([[299]], names, parents)
    assert found.labels.size == 295
    assert (found.complete_counts == 1).all()
    assert (found.counts == 0).all()


@pytest.mark.parametrize(
    ("parents", "message"),
    [
        ({"rome": ["rome"]}, "'rome' is its own parent"),
        ({"rome": ["italy"], "italy": ["europe"], "europe": ["rome"]}, "'europe', 'italy', 'rome'"),
        ({"rome": "italy"}, "list of names"),
    ],
)
def test_refuses_what_is_not_a_hierarchy(parents: dict[str, list[str]], message: str) -> None:
    with pytest.raises(DataError, match=message):
        hierarchy_counts(np.zeros((1, 6)), NAMES, parents)


def test_refuses_names_that_do_not_match() -> None:
    with pytest.raises(DataError, match="6 labels, but 2 are expected"):
        hierarchy_counts(np.zeros((1, 6)), ["a", "b"], {})
    with pytest.raises(DataError, match="'a' occurs more than once"):
        hierarchy_counts(np.zeros((1, 2)), ["a", "a"], {})
    with pytest.raises(ParameterError, match="min_descendants is 0"):
        hierarchy_counts(np.zeros((1, 6)), NAMES, PARENTS, min_descendants=0)
