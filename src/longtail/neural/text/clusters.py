"""Label clusters for the models that retrieve clusters first, by the label trees of `trees.label`."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse

from longtail.neural.text.tokens import Tokens


def token_features(tokens: Tokens) -> sparse.csr_matrix:
    """Return TF-IDF features of the texts over their tokens, by which labels are compared."""
    n_columns = int(tokens.ids.max(initial=0)) + 1
    counts = sparse.csr_matrix(
        (np.ones(tokens.ids.size, np.float32), np.array(tokens.ids), np.array(tokens.offsets)),  # copies: sorted below
        shape=(len(tokens), n_columns),
    )
    counts.sum_duplicates()
    found_in = np.bincount(counts.indices, minlength=n_columns)
    idf = np.log((1 + len(tokens)) / (1 + found_in)).astype(np.float32)
    counts.data = (1 + np.log(counts.data)) * idf[counts.indices]
    return counts


def label_clusters(features: sparse.csr_matrix, Y: sparse.csr_matrix, size: int, *, seed: int) -> torch.Tensor:
    """Return the labels of each cluster, (clusters, largest) int64, -1 pads.

    Clusters are the leaves of a balanced tree, of at most `size` labels. Labels without points first fill up these
    clusters, then form clusters of their own.
    """
    from longtail.trees.label.clustering import two_balanced_clusters  # imported here, because it needs Numba
    from longtail.trees.label.representation import label_representation

    rows = label_representation(features, Y, "pifa")
    with_points = np.flatnonzero(np.bincount(Y.indices, minlength=Y.shape[1])).astype(np.int32)
    groups = _halved(rows, with_points, size, np.random.default_rng(seed), two_balanced_clusters)
    groups = _filled_up(groups, np.setdiff1d(np.arange(Y.shape[1], dtype=np.int32), with_points), size)
    table = np.full((len(groups), max(group.size for group in groups)), -1, np.int64)
    for row, group in zip(table, groups, strict=True):
        row[: group.size] = np.sort(group)
    return torch.from_numpy(table)


def _filled_up(groups: list[NDArray[np.int32]], rest: NDArray[np.int32], size: int) -> list[NDArray[np.int32]]:
    filled = []
    for group in groups:
        room = size - group.size
        filled.append(np.concatenate([group, rest[:room]]))
        rest = rest[room:]
    return filled + (np.split(rest, range(size, rest.size, size)) if rest.size else [])


def points_of_clusters(Y: sparse.csr_matrix, members: torch.Tensor) -> sparse.csr_matrix:
    """Return the clusters with a label of each point, (points, clusters) of 0/1: the labels of the level above."""
    table = members.numpy()
    rows, columns = np.nonzero(table >= 0)
    belongs = sparse.csr_matrix(
        (np.ones(rows.size, np.float32), (table[rows, columns], rows)), (Y.shape[1], len(table))
    )
    above = sparse.csr_matrix(Y @ belongs)
    above.data[:] = 1
    return above


def _halved(rows, labels, size, rng, split) -> list[NDArray[np.int32]]:  # type: ignore[no-untyped-def]
    if labels.size <= size:
        return [labels]
    side = split(rows, labels, rng)
    return [group for half in (0, 1) for group in _halved(rows, labels[side == half], size, rng, split)]
