"""Mutations of files, and what readers must do with them: refuse, or return a consistent dataset."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from longtail.data import Dataset
from longtail.errors import LongtailError

# Bytes that mean something to one of the formats come up more often than by chance.
TELLING = st.sampled_from(
    [bytes([b]) for b in b' \n\r\t,:;-+.0129eE"{}[]\\\0\xff\x80'] + [b"nan", b"1e999", b"99999999999"]
)
EDIT = st.tuples(st.sampled_from(["flip", "delete", "insert", "replace", "cut"]), st.floats(0, 1), st.integers(0, 255))


def mutated(content: bytes, edits: list[tuple[str, float, int]], telling: bytes) -> bytes:
    for kind, where, number in edits:
        at = int(where * len(content))
        if kind == "cut":
            content = content[:at]
        elif kind == "delete":
            content = content[:at] + content[at + 1 + number % 8 :]
        elif kind == "insert":
            content = content[:at] + telling + content[at:]
        elif kind == "replace":
            content = content[:at] + telling + content[at + len(telling) :]
        elif at < len(content):
            content = content[:at] + bytes([content[at] ^ (1 << number % 8)]) + content[at + 1 :]
    return content


def assert_consistent(data: Dataset) -> None:
    for matrix in (data.Y, data.X):
        if matrix is not None:
            matrix.check_format(full_check=True)
            assert matrix.shape[0] == data.n_points
            assert matrix.has_canonical_format
            assert np.isfinite(matrix.data).all()
    if data.texts is not None:
        assert len(list(data.texts)) == data.n_points
    assert data.label_names is None or len(set(data.label_names)) == data.n_labels


def read_or_refuse(path: Path, read: Callable[[Path], object]) -> object | None:
    try:
        return read(path)
    except LongtailError:
        return None


def check_mutations(path: Path, read: Callable[[Path], object], check: Callable[[object], None], examples: int) -> None:
    """Mutate a file in many ways; the reader refuses each with a LongtailError, or what it returns passes the check."""
    original = path.read_bytes()

    @settings(max_examples=examples, deadline=None)
    @given(st.lists(EDIT, min_size=1, max_size=4), TELLING)
    def mutate_and_read(edits, telling):
        path.write_bytes(mutated(original, edits, telling))
        result = read_or_refuse(path, read)
        if result is not None:
            check(result)

    mutate_and_read()
    path.write_bytes(original)
