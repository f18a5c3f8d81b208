"""Blocks of labels: each label once, frequent labels first, similar labels together."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from scipy import sparse

from linear.twins import synthetic
from longtail.linear import blocks
from longtail.linear.blocks import label_blocks
from longtail.linear.simd import BLOCK


def planted(n_topics=4, labels_per_topic=BLOCK, points_per_label=6, seed=0):
    """Labels of several topics, all equally frequent and in mixed order; a point has words of its label's topic."""
    rng = np.random.default_rng(seed)
    n_labels = n_topics * labels_per_topic
    topics = rng.permutation(np.repeat(np.arange(n_topics), labels_per_topic))
    labels = np.repeat(np.arange(n_labels), points_per_label)
    X = np.zeros((labels.size, 20 * n_topics))
    for point, label in enumerate(labels):
        X[point, 20 * topics[label] + rng.choice(20, 8, replace=False)] = 1
    Y = sparse.csr_matrix((np.ones(labels.size, np.float32), (np.arange(labels.size), labels)))
    return sparse.csr_matrix(X, dtype=np.float32), Y, topics


def test_labels_of_one_topic_share_a_block():
    X, Y, topics = planted()
    found = label_blocks(X, Y)
    assert len(found) == 4
    for block in found:
        assert np.unique(topics[block]).size == 1


@pytest.mark.parametrize("n_labels", [1, BLOCK - 1, BLOCK, BLOCK + 1, 70, 3 * BLOCK])
def test_every_label_with_points_is_in_one_block(n_labels):
    X, Y = synthetic(n_labels=max(n_labels, 40))
    Y = Y[:, :n_labels]
    found = label_blocks(X, Y)
    counts = np.bincount(Y.indices, minlength=n_labels)
    np.testing.assert_array_equal(np.sort(np.concatenate(found)), np.flatnonzero(counts))
    sizes = [block.size for block in found]
    assert max(sizes) <= BLOCK
    assert len(sizes) == -(-sum(sizes) // BLOCK), "no more blocks than needed"


def test_strata_go_from_frequent_to_rare(monkeypatch):
    monkeypatch.setattr(blocks, "_STRATUM", 2 * BLOCK)
    X, Y = synthetic(n_labels=300)
    counts = np.bincount(Y.indices, minlength=300)
    found = [counts[block] for block in label_blocks(X, Y)]
    strata = [np.concatenate(found[first : first + 2]) for first in range(0, len(found), 2)]
    assert len(strata) >= 3
    for frequent, rare in pairwise(strata):
        assert frequent.min() >= rare.max()


def test_no_label_with_points_gives_no_block():
    assert label_blocks(sparse.csr_matrix(np.eye(3, dtype=np.float32)), sparse.csr_matrix((3, 50))) == []


def test_blocks_are_the_same_each_time():
    X, Y, _ = planted()
    for one, other in zip(label_blocks(X, Y), label_blocks(X, Y), strict=True):
        np.testing.assert_array_equal(one, other)


def test_labels_whose_points_are_all_alike_or_empty_are_no_trouble():
    X = sparse.csr_matrix((200, 5), dtype=np.float32)
    Y = sparse.csr_matrix(np.random.default_rng(0).random((200, 80)) < 0.2, dtype=np.float32)
    assert sum(block.size for block in label_blocks(X, Y)) == 80
