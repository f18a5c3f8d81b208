"""Checks of loaded arrays: what is in range passes, and the first number that is not is named."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from longtail.core.check_arrays import (
    check_above_zero,
    check_array,
    check_columns,
    check_starts,
    check_table,
    check_within,
)
from longtail.core.state import State
from longtail.errors import ModelError


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.uint8, np.uint32])
def test_numbers_must_be_within(dtype):
    check_within("a", np.array([], dtype), 0, 1)
    check_within("a", np.array([0, 4], dtype), 0, 5)
    with pytest.raises(ModelError, match="the array a contains 5, but its numbers must be from 0 to 4"):
        check_within("a", np.array([0, 5], dtype), 0, 5)


@pytest.mark.parametrize("wrong", [-1, -(2**31)])
def test_negative_numbers_are_found_in_one_pass(wrong):
    with pytest.raises(ModelError, match=f"contains {wrong}"):
        check_within("a", np.array([0, wrong, 3], np.int32), 0, 5)
    check_within("a", np.array([-1, 3], np.int32), -1, 5)


@pytest.mark.parametrize("starts", [[], [1, 3], [0, 2], [0, 3, 2, 3], [0, 4]])
def test_starts_must_rise_from_0_to_the_end(starts):
    check_starts("a", np.array([0, 1, 1, 3]), 3)
    with pytest.raises(ModelError, match="must rise from 0 to 3"):
        check_starts("a", np.array(starts, np.int64), 3)


def test_types_and_shapes_must_be_those_expected():
    array = np.zeros((2, 3), np.int32)
    assert check_array("a", array, (np.int64, np.int32), (None, 3)) is array
    for types, shape in ((np.int64, (2, 3)), (np.int32, (2,)), (np.int32, (3, 3))):
        with pytest.raises(ModelError, match="the array a"):
            check_array("a", array, types, shape)


def test_a_truth_value_is_one_of_two_bytes():
    """Compiled code looks at one bit of it, NumPy at all."""
    with pytest.raises(ModelError, match="neither true nor false"):
        check_array("a", np.array([0, 1, 2], np.uint8).view(np.bool_), np.bool_, (3,))


@pytest.mark.parametrize("wrong", [0.0, -1.0, np.nan, np.inf])
def test_numbers_must_be_above_zero(wrong):
    check_above_zero("a", np.array([0.5], np.float32))
    with pytest.raises(ModelError, match="the array a contains"):
        check_above_zero("a", np.array([0.5, wrong], np.float32))


def test_a_matrix_must_have_the_shape_and_the_columns_that_it_says():
    state = State()
    state.put_csr("W", sparse.random(7, 5, density=0.4, format="csr", random_state=0, dtype=np.float32))
    check_columns("W", state.get_csr("W", (7, 5)))
    for shape in ((7, 4), (6, 5)):
        with pytest.raises(ModelError, match="the matrix W has shape"):
            state.get_csr("W", shape)
    for name, value in (("indices", 5), ("indices", -1)):
        arrays = {key: array.copy() for key, array in state.arrays.items()}
        arrays[f"W.{name}"][2] = value
        with pytest.raises(ModelError, match=r"W\.indices"):
            check_columns("W", State(state.values, arrays).get_csr("W"))
    for shape in (None, [7], [7, -5], [7.0, 5], "75", [True, 5]):
        with pytest.raises(ModelError, match=r"W\.shape"):
            State({"W.shape": shape}, state.arrays).get_csr("W")


def test_a_table_has_every_number_once():
    check_table("a", np.array([[0, 2], [1, -1], [-1, -1]]), 3)
    for wrong in ([[0, 0]], [[3, -1]], [[-2, 0]]):
        with pytest.raises(ModelError, match="the array a contains"):
            check_table("a", np.array(wrong), 3)


def test_a_message_that_quotes_something_long_stays_short():
    message = str(ModelError(f"a is {'x' * 10_000}, but must be short"))
    assert len(message) < 1500
    assert message.startswith("a is xxx")
    assert message.endswith("x, but must be short")
