"""What callers may pass as X and Y, and what they are told when it cannot be used."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from longtail.core.inputs import check_features, check_k, check_label_names, check_labels, check_texts, empty_rows
from longtail.errors import DataError, ParameterError

DENSE = np.array([[0, 1.5, 0], [0, 0, 0], [2, 0, -1]], dtype=np.float64)


@pytest.mark.parametrize(
    "X",
    [
        DENSE,
        DENSE.tolist(),
        DENSE.astype(np.int64) + 0.0,
        sparse.csr_matrix(DENSE),
        sparse.csr_array(DENSE),
        sparse.csc_matrix(DENSE),
        sparse.coo_array(DENSE),
    ],
)
def test_features_come_out_as_sorted_csr_float32_int32(X):
    matrix = check_features(X)
    assert isinstance(matrix, sparse.csr_matrix)
    assert (matrix.dtype, matrix.indices.dtype) == (np.float32, np.int32)
    assert matrix.has_canonical_format
    np.testing.assert_array_equal(matrix.toarray(), np.asarray(X.todense() if sparse.issparse(X) else X))


def test_int64_indices_are_narrowed_and_the_callers_matrix_is_left_alone():
    X = sparse.csr_matrix(DENSE, dtype=np.float32)
    X.indices, X.indptr = X.indices.astype(np.int64), X.indptr.astype(np.int64)
    matrix = check_features(X)
    assert matrix.indices.dtype == np.int32
    assert X.indices.dtype == np.int64
    np.testing.assert_array_equal(matrix.toarray(), DENSE)


def test_what_is_right_already_is_not_copied():
    X = sparse.csr_matrix(DENSE, dtype=np.float32)
    assert np.shares_memory(check_features(X).data, X.data)


def test_duplicates_are_summed_and_unsorted_rows_sorted_in_a_copy():
    X = sparse.csr_matrix((np.float32([1, 2, 4]), np.int32([2, 0, 2]), np.int32([0, 3])), shape=(1, 3))
    matrix = check_features(X)
    assert matrix.toarray().tolist() == [[2, 0, 5]]
    assert X.indices.tolist() == [2, 0, 2]


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e39])
def test_a_value_that_is_not_finite_names_its_row(bad):
    X = DENSE.astype(np.float64)  # which can hold 1e39; float32 cannot
    X[2, 1] = bad
    for form in (X, sparse.csr_matrix(X)):
        with pytest.raises(DataError, match="features of point 2 contain a NaN or infinite value"):
            check_features(form)


def test_rows_before_the_bad_one_may_be_empty():
    X = np.zeros((5, 2))
    X[4, 0] = np.nan
    with pytest.raises(DataError, match="point 4"):
        check_features(X)


@pytest.mark.parametrize("X", [["a text", "another"], [[1, 2], [3]], [1.0, 2.0], 3.0])
def test_texts_and_wrong_shapes_are_refused(X):
    with pytest.raises(DataError, match="X must"):
        check_features(X)


@pytest.mark.parametrize("as_matrix", [np.asarray, sparse.csr_matrix])
def test_complex_features_are_refused(as_matrix):
    with pytest.raises(DataError, match="complex"):
        check_features(as_matrix(np.ones((2, 2)) * 1j))


def test_the_number_of_features_is_checked():
    with pytest.raises(DataError, match="X has 3 features, but the model was fitted with 4"):
        check_features(DENSE, n_features=4)


INDICATOR = np.array([[0, 1, 1], [0, 0, 0], [1, 0, 0]])


@pytest.mark.parametrize(
    "Y",
    [
        INDICATOR,
        INDICATOR.astype(bool),
        INDICATOR.astype(np.float64),
        sparse.csr_matrix(INDICATOR),
        sparse.csc_array(INDICATOR),
        [[1, 2], [], [0]],
        [(2, 1, 2), (), {0}],
        [np.array([1, 2]), np.array([], dtype=int), np.array([0])],
    ],
)
def test_labels_come_out_as_one_indicator(Y):
    matrix = check_labels(Y, n_points=3)
    assert matrix.dtype == np.float32
    assert matrix.indices.dtype == np.int32
    np.testing.assert_array_equal(matrix.toarray(), INDICATOR)


def test_stored_zeros_are_no_labels():
    Y = sparse.csr_matrix((np.float32([1, 0]), np.int32([0, 1]), np.int32([0, 2])), shape=(1, 2))
    assert check_labels(Y).nnz == 1
    assert Y.nnz == 2


@pytest.mark.parametrize(
    ("Y", "message"),
    [
        (np.array([[0, 2]]), "only zeros and ones"),
        (np.array([[0.5, 1]]), "only zeros and ones"),
        (np.array([[np.nan, 1]]), "only zeros and ones"),
        (np.array([[-1, 0, 1]]), "only zeros and ones"),
        ([[0, -1]], "label id -1 is negative"),
        ([["a"]], "one list of label ids"),
        ([[0.5]], "one list of label ids"),
        ([1, 2], "one list of label ids"),
        (None, "one list of label ids"),
        ([[2**40], [1]], "label id 1099511627776 is too large: ids of L labels are 0 to L-1"),
        ([[2**31 - 1], [1]], "is too large.* renumber yours"),
        ([[100_000_000], [1]], "is too large"),
        ([[2**63 + 5], [1]], "is too large"),
        (sparse.csr_matrix((2, 2**40)), "1,099,511,627,776 labels, but may have at most 2,147,483,647"),
        ([[0, 1, 0], [1, 0, 0], [0, 0, 1]], r"look like rows of a 0/1 matrix.* np\.array\(Y\)"),
        ([[0, 1], [1, 1]], "look like rows of a 0/1 matrix"),
    ],
)
def test_labels_that_cannot_be_used_are_refused(Y, message):
    with pytest.raises(DataError, match=message):
        check_labels(Y)


@pytest.mark.parametrize("Y", [[[0, 1], [1, 0]], [[0], [1]], [[0, 0, 2], [1, 1, 1]], [[0, 0], [1]], [[1, 1], []]])
def test_lists_that_can_only_be_ids_or_might_be_are_ids(Y):
    assert check_labels(Y).indices.tolist() == [i for row in Y for i in sorted(set(row))]


@pytest.mark.parametrize("check", [check_features, check_labels])
def test_wide_indices_are_narrowed_and_too_many_columns_refused(check):
    wide = sparse.csr_matrix(np.eye(3, dtype=np.float32))
    wide.indices, wide.indptr = wide.indices.astype(np.int64), wide.indptr.astype(np.int64)
    assert check(wide).indices.dtype == np.int32
    np.testing.assert_array_equal(check(wide).toarray(), np.eye(3))
    with pytest.raises(DataError, match="may have at most 2,147,483,647"):
        check(sparse.csr_matrix(([1.0], ([0], [2**40 - 1])), shape=(1, 2**40)))


def test_counts_of_points_and_labels_are_checked():
    with pytest.raises(DataError, match="X has 2 points, but Y has 3"):
        check_labels(INDICATOR, n_points=2)
    with pytest.raises(DataError, match="Y has 3 labels, but 4 are expected"):
        check_labels(INDICATOR, n_labels=4)
    with pytest.raises(DataError, match="label id 7 is out of range: there are 3 labels"):
        check_labels([[7]], n_labels=3)


@pytest.mark.parametrize("k", [0, -1, 2.0, "2", True, None])
def test_k_must_be_a_whole_number_of_at_least_one(k):
    with pytest.raises(ParameterError, match="k "):
        check_k(k, 3)
    assert check_k(np.int64(3), 3) == check_k(4, 3) == 3


def test_rows_of_zeros_are_empty_whether_or_not_the_zeros_are_stored():
    matrix = sparse.csr_matrix(([0.0, 0.0, 0.5], [0, 1, 1], [0, 1, 1, 3]), shape=(3, 2))
    assert empty_rows(matrix).tolist() == [True, True, False]
    assert empty_rows(matrix[2:]).tolist() == [False]


@pytest.mark.parametrize(
    ("X", "said"),
    [
        (None, "X is None, but the model needs texts"),
        (np.eye(2), "looks like features"),
        (sparse.eye(2, format="csr"), "looks like features"),
        (np.array([["a", "b"]]), "sequence of texts"),
        ("one text", "not str; put a single text into a list"),
        (b"one text", "not bytes"),
        ({"a": 1}, "not dict"),
        ({"a", "b"}, "not set"),
        (3, "not int"),
    ],
)
def test_what_is_no_sequence_of_texts_is_refused(X, said):
    with pytest.raises(DataError, match=said):
        check_texts(X)


def test_texts_are_taken_as_they_are_and_other_iterables_become_lists():
    texts = ["a", "b"]
    assert check_texts(texts) is texts
    array = np.array(texts)
    assert check_texts(array) is array
    assert check_texts(text for text in texts) == texts


def test_no_features_are_said():
    with pytest.raises(DataError, match="X is None, but the model needs features"):
        check_features(None)


class Frame:
    """What of a DataFrame counts here: two dimensions, and an array of its values."""

    ndim = 2

    def __init__(self, values):
        self.values = values

    def __array__(self, dtype=None, copy=None):
        return np.asarray(self.values, dtype=dtype)


def test_labels_may_be_the_columns_of_a_frame():
    rows = [[0, 1, 0], [1, 0, 1]]
    assert check_labels(Frame(rows), n_points=2).toarray().tolist() == rows
    for wrong in ([["yes", "no"]], [[2, 0]]):
        with pytest.raises(DataError, match="only zeros and ones"):
            check_labels(Frame(wrong))
        with pytest.raises(DataError, match="only zeros and ones"):
            check_labels(np.array(wrong))


def test_names_that_no_file_can_hold_are_refused():
    with pytest.raises(DataError, match=r"label_names.* contains a lone surrogate"):
        check_label_names(["fine", "\ud800bad"], 2)
