"""Ranked labels: the kernels against a plain twin, and what the container refuses."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from longtail.core.predictions import Predictions
from longtail.errors import DataError, ParameterError


def best_of(pairs: list[tuple[int, float]], k: int) -> list[tuple[int, float]]:
    """The plain twin of `topk.offer`: higher score first, then lower label id."""
    return sorted(pairs, key=lambda pair: (-pair[1], pair[0]))[:k]


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), k=st.integers(1, 8), n_labels=st.integers(1, 12))
def test_dense_and_sparse_selection_agree_with_the_plain_twin(seed, k, n_labels):
    rng = np.random.default_rng(seed)
    dense = rng.integers(-2, 3, size=(6, n_labels)).astype(np.float32)  # few values: many ties
    found = Predictions.from_dense(dense, k)
    assert list(found.rows()) == [best_of(list(enumerate(row.tolist())), k) for row in dense]

    stored = rng.random(dense.shape) < 0.5
    matrix = sparse.csr_matrix((dense[stored], np.nonzero(stored)), shape=dense.shape)  # zeros stay stored
    found = Predictions.from_csr(matrix, k)
    expected = [best_of([(j, float(dense[i, j])) for j in np.flatnonzero(stored[i])], k) for i in range(dense.shape[0])]
    assert list(found.rows()) == expected
    assert (found.scores[found.labels < 0] == -np.inf).all()


def test_to_csr_and_back_keeps_zeros_and_short_rows():
    given_ = Predictions([[2, 0], [1, -1]], [[0.5, 0.0], [-3.0, -np.inf]])
    matrix = given_.to_csr(4)
    assert matrix.shape == (2, 4)
    assert matrix.nnz == 3
    back = Predictions.from_csr(matrix, 2)
    np.testing.assert_array_equal(back.labels, given_.labels)
    np.testing.assert_array_equal(back.scores, given_.scores)


def test_names_rows_top_slices_and_concatenation():
    predictions = Predictions([[1, 0], [0, -1]], [[2.0, 1.0], [3.0, -np.inf]])
    assert list(predictions.rows(["a", "b"])) == [[("b", 2.0), ("a", 1.0)], [("a", 3.0)]]
    assert predictions.top(1).labels.tolist() == [[1], [0]]
    assert len(predictions[:1]) == 1
    both = Predictions.concatenate([predictions, predictions[1:]])
    assert both.labels.tolist() == [[1, 0], [0, -1], [0, -1]]
    assert predictions.k == 2


@pytest.mark.parametrize(
    ("labels", "scores", "message"),
    [
        ([[0, 1]], [[1.0]], "must both have shape"),
        ([0, 1], [1.0, 0.5], "must both have shape"),
        ([[-2]], [[1.0]], "ids start at 0"),
        ([[0]], [[np.nan]], "NaN"),
    ],
)
def test_malformed_predictions_are_refused(labels, scores, message):
    with pytest.raises(DataError, match=message):
        Predictions(np.array(labels), np.array(scores))


def test_k_and_label_range_are_checked():
    predictions = Predictions([[3]], [[1.0]])
    with pytest.raises(ParameterError, match="there are 1 labels per point"):
        predictions.top(2)
    with pytest.raises(ParameterError, match="label 3 is predicted"):
        predictions.to_csr(3)


@pytest.mark.parametrize("k", [1, 2, 3, 5])
@pytest.mark.parametrize("place", range(6))
def test_a_nan_never_makes_way_for_a_worse_label(k, place):
    """Whatever comes before or after it, a NaN is an error; it does not push a label out and then vanish."""
    scores = np.array([[9.0, 8.0, 7.0, 3.0, 2.0, 1.0]], np.float32)
    for row in (scores, scores[:, ::-1]):
        broken = row.copy()
        broken[0, place] = np.nan
        with pytest.raises(DataError, match="NaN"):
            Predictions.from_dense(broken, k)
