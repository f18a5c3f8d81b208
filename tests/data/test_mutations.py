"""Damaged files of every format: the readers raise a LongtailError or return a consistent dataset."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from longtail.core.predictions import Predictions
from longtail.data import Dataset, read_dataset, read_predictions, write_dataset, write_predictions
from longtail.errors import LongtailError

NAMES = ["law", "ärt", "3"]
FEATURES = Dataset(Y=[[0, 2], [], [1], [0]], X=np.array([[0, 1.5, 0], [0, 0, 1e-9], [2, -1, 3], [0, 0, 0]], np.float32))
TEXTS = Dataset(Y=[[0, 2], [], [1]], texts=['one, "two"', "", "drei é\nvier"], label_names=NAMES)
BOTH = Dataset(Y=FEATURES.Y, X=FEATURES.X, texts=list("abcd"), label_names=NAMES, label_parents={"3": ["law"]})
PREDICTIONS = Predictions([[2, 0], [1, -1]], [[0.5, 0.25], [1e-3, -np.inf]])

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


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("a.txt", FEATURES), ("a.txt.gz", FEATURES), ("a.txt.zst", FEATURES), ("a.X.npz", FEATURES),
        ("a.jsonl", TEXTS), ("a.jsonl.xz", TEXTS), ("a.csv", TEXTS), ("a.tsv.gz", TEXTS),
    ],
)  # fmt: skip
def test_mutated_files(tmp_path, name, data):
    path = tmp_path / name
    write_dataset(data, path)
    original = path.read_bytes()
    assert_consistent(read_dataset(path))

    @settings(max_examples=120, deadline=5000)
    @given(st.lists(EDIT, min_size=1, max_size=4), TELLING)
    def mutate_and_read(edits, telling):
        path.write_bytes(mutated(original, edits, telling))
        result = read_or_refuse(path, read_dataset)
        if result is not None:
            assert_consistent(result)

    mutate_and_read()


def test_mutated_directories(tmp_path):
    original, copy = tmp_path / "original", tmp_path / "copy"
    write_dataset(BOTH, original)
    names = sorted(file.name for file in original.iterdir())

    @settings(max_examples=150, deadline=5000)
    @given(st.lists(EDIT, min_size=1, max_size=3), TELLING, st.sampled_from(names))
    def mutate_and_read(edits, telling, name):
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(original, copy)
        (copy / name).write_bytes(mutated((original / name).read_bytes(), edits, telling))
        result = read_or_refuse(copy, read_dataset)
        if result is not None:
            assert_consistent(result)

    mutate_and_read()


@pytest.mark.parametrize("name", ["p.npz", "p.jsonl", "p.txt"])
def test_mutated_predictions(tmp_path, name):
    path = tmp_path / name
    write_predictions(PREDICTIONS, path)
    original = path.read_bytes()

    @settings(max_examples=120, deadline=5000)
    @given(st.lists(EDIT, min_size=1, max_size=4), TELLING)
    def mutate_and_read(edits, telling):
        path.write_bytes(mutated(original, edits, telling))
        result = read_or_refuse(path, read_predictions)
        if result is not None:
            assert isinstance(result, Predictions)
            assert (result.labels >= -1).all()

    mutate_and_read()
