from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from longtail.data import Dataset, Texts
from longtail.errors import DataError

Y = [[0, 2], [], [2]]
X = np.array([[0, 1.5], [2, 0], [0, 0]], np.float32)


def test_holds_features_and_labels_in_one_shape():
    data = Dataset(Y=Y, X=X, label_names=["a", "b", "c"])
    assert (data.n_points, data.n_labels, data.n_features) == (3, 3, 2)
    assert data.X.dtype == np.float32
    assert data.X.indices.dtype == np.int32
    assert data.label_counts.tolist() == [1, 0, 2]
    assert data.Y.toarray().tolist() == [[1, 0, 1], [0, 0, 0], [0, 0, 1]]


def test_holds_texts():
    data = Dataset(Y=Y, texts=["one", "two", "three"])
    assert isinstance(data.texts, Texts)
    assert data.n_features is None


def test_subset_keeps_label_ids():
    data = Dataset(Y=Y, X=X, texts=["one", "two", "three"], label_names=["a", "b", "c"])
    part = data.subset([2, 0])
    named = Dataset(Y=Y, X=X, ids=["r1", "r2", 3], weights=[1, 2, 3]).subset([2, 0])
    assert list(named.ids) == ["3", "r1"]
    assert named.weights.tolist() == [3, 1]
    assert list(part.texts) == ["three", "one"]
    assert part.X.toarray().tolist() == [[0, 0], [0, 1.5]]
    assert part.Y.toarray().tolist() == [[0, 0, 1], [1, 0, 1]]
    assert data.subset(np.array([False, True, False])).texts[0] == "two"


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({}, "needs features"),
        ({"X": X[:2]}, "X has 2 points, but Y has 3"),
        ({"texts": ["one"]}, "there are 1 points, but Y has 3"),
        ({"X": X, "texts": ["one"]}, "there are 1 texts"),
        ({"texts": "abc"}, "sequence of strings"),
        ({"X": X, "label_names": ["a"]}, "label_names has 1 entries, but Y has 3 labels"),
        ({"X": X, "label_names": ["a", "b", "a"]}, "'a' occurs twice"),
        ({"X": X, "label_names": [1, 2, 3]}, "label_names must be a list of strings"),
        ({"X": X, "label_texts": ["a"]}, "label_texts has 1 entries"),
        ({"X": X, "label_parents": {"a": ["b"]}}, "label_names are needed too"),
        ({"X": X, "label_names": ["a", "b", "c"], "label_parents": {"a": "b"}}, "label_parents must map"),
        ({"X": X, "label_names": ["a", "b", "c"], "label_parents": {"a": [1]}}, "label_parents must map"),
        ({"X": X * np.nan}, "NaN or infinite"),
        ({"X": X, "ids": ["a"]}, "there are 3 points, but 1 ids"),
        ({"X": X, "ids": ["a", None, "c"]}, "the id of point 1 is None, but must be a string or a whole number"),
        ({"X": X, "ids": "abc"}, "ids must be a sequence of strings"),
        ({"X": X, "weights": [1, 2]}, "weights have shape .2,., but there are 3 points"),
        ({"X": X, "weights": [1, "a", 2]}, "weights must be one number per point"),
        ({"X": X, "weights": [1, 0, 2]}, "the weight of point 1 is 0, but must be a number greater than 0"),
        ({"X": X, "weights": [1, 2, np.nan]}, "the weight of point 2 is nan"),
    ],
)
def test_parts_must_match(parts: dict, message: str):
    with pytest.raises(DataError, match=message):
        Dataset(Y=Y, **parts)


def test_input_matrices_are_not_changed():
    given = sparse.csr_matrix((np.array([1.0, 2.0]), np.array([1, 0]), np.array([0, 2])), shape=(1, 2))
    Dataset(Y=[[0]], X=given)
    assert given.indices.tolist() == [1, 0]
