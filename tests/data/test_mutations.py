"""Damaged files of every format: the readers raise a LongtailError or return a consistent dataset."""

from __future__ import annotations

import shutil

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from data.mutations import EDIT, TELLING, assert_consistent, check_mutations, mutated, read_or_refuse
from longtail.core.predictions import Predictions
from longtail.data import Dataset, read_dataset, read_predictions, write_dataset, write_predictions

NAMES = ["law", "ärt", "3"]
FEATURES = Dataset(Y=[[0, 2], [], [1], [0]], X=np.array([[0, 1.5, 0], [0, 0, 1e-9], [2, -1, 3], [0, 0, 0]], np.float32))
TEXTS = Dataset(Y=[[0, 2], [], [1]], texts=['one, "two"', "", "drei é\nvier"], label_names=NAMES)
BOTH = Dataset(Y=FEATURES.Y, X=FEATURES.X, texts=list("abcd"), label_names=NAMES, label_parents={"3": ["law"]})
PREDICTIONS = Predictions([[2, 0], [1, -1]], [[0.5, 0.25], [1e-3, -np.inf]])


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
    assert_consistent(read_dataset(path))
    check_mutations(path, read_dataset, assert_consistent, 120)


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

    def check(result):
        assert isinstance(result, Predictions)
        assert (result.labels >= -1).all()

    check_mutations(path, read_predictions, check, 120)
