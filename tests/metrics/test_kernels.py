from __future__ import annotations

import numpy as np
import pytest

from longtail.metrics import kernels
from metrics.cases import random_case


@pytest.mark.parametrize("seed", range(5))
def test_hits_are_those_of_the_plain_loop(seed: int) -> None:
    predictions, Y, _ = random_case(seed)
    hits = np.zeros(predictions.labels.shape, dtype=np.bool_)
    assert kernels.find_hits(Y.indptr.astype(np.int64), Y.indices, predictions.labels, Y.shape[1], hits) == -1
    dense = Y.toarray()
    plain = [[label >= 0 and dense[i, label] == 1 for label in row] for i, row in enumerate(predictions.labels)]
    np.testing.assert_array_equal(hits, plain)


def test_a_label_predicted_twice_names_its_point() -> None:
    predictions, Y, _ = random_case(0)
    labels = predictions.labels.copy()
    labels[17, :3] = [4, 5, 4]
    hits = np.zeros(labels.shape, dtype=np.bool_)
    assert kernels.find_hits(Y.indptr.astype(np.int64), Y.indices, labels, Y.shape[1], hits) == 17


@pytest.mark.parametrize("seed", range(5))
def test_largest_weights_are_those_of_sorting(seed: int) -> None:
    _, Y, inverse = random_case(seed)
    k = 4
    largest = np.zeros((Y.shape[0], k))
    scratch = np.full(largest.shape, -1, dtype=np.int32)
    kernels.largest_weights(Y.indptr.astype(np.int64), Y.indices, inverse, scratch, largest)
    for i, row in enumerate(largest):
        plain = sorted(inverse[Y[i].indices], reverse=True)[:k]
        np.testing.assert_array_equal(row, plain + [0.0] * (k - len(plain)))
