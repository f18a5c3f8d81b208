from __future__ import annotations

import numpy as np
import pytest

from longtail.data import Texts
from longtail.errors import DataError

STRINGS = ["", "plain", "Straße – 東京", "two\nlines", ""]


def test_behaves_like_the_list_it_was_made_of():
    texts = Texts.of(iter(STRINGS))
    assert len(texts) == 5
    assert list(texts) == STRINGS
    assert [texts[i] for i in range(-5, 5)] == STRINGS + STRINGS
    assert "plain" in texts
    with pytest.raises(IndexError):
        texts[5]


@pytest.mark.parametrize("part", [slice(1, 3), slice(None, None, 2), slice(4, 1), slice(-2, None), slice(9, 20)])
def test_slices_are_texts(part: slice):
    cut = Texts.of(STRINGS)[part]
    assert isinstance(cut, Texts)
    assert list(cut) == STRINGS[part]


def test_a_slice_shares_the_buffer_and_packing_drops_the_rest():
    texts = Texts.of(STRINGS)
    cut = texts[1:3]
    assert cut.buffer is texts.buffer
    assert cut.packed().buffer.tobytes().decode() == "plainStraße – 東京"
    assert cut == Texts.of(STRINGS[1:3])
    assert cut != texts


def test_subset_takes_ids_and_masks():
    texts = Texts.of(STRINGS)
    assert list(texts.subset([3, 1, 1, -1])) == ["two\nlines", "plain", "plain", ""]
    assert list(texts.subset(np.array([True, False, False, True, False]))) == ["", "two\nlines"]
    assert list(texts.subset(np.empty(0, int))) == []


def test_refuses_what_is_not_a_text():
    with pytest.raises(DataError, match="text 1 is int"):
        Texts.of(["a", 3])  # type: ignore[list-item]
    with pytest.raises(DataError, match="text 0 cannot be written as UTF-8"):
        Texts.of(["\ud800"])
    with pytest.raises(DataError, match="offsets"):
        Texts(np.zeros(3, np.uint8), np.array([0, 2, 1]))
    with pytest.raises(DataError, match="offsets"):
        Texts(np.zeros(3, np.uint8), np.array([0, 4]))


def test_bytes_that_are_no_text_are_an_error_of_longtail():
    with pytest.raises(DataError, match="a text is not UTF-8"):
        list(Texts(np.array([0x61, 0xFF], np.uint8), np.array([0, 1, 2])))
