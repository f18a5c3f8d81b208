"""Reading into files of a workspace: the same dataset as in memory, mapped, whatever the format."""

from __future__ import annotations

import gzip
import json
import mmap

import numpy as np
import pytest

from longtail.core import workspace
from longtail.data import make_longtail, read_dataset, write_dataset
from longtail.errors import DataError, OutputError

RECORDS = [
    {
        "text": f"text {row} of many äöü",
        "labels": [{"id": f"l{(row * step) % 17}", "weight": 0.5 if row > 150 else 1.0} for step in (1, 3, 3)][
            : row % 4
        ],
        "key": row,
        "w": 1 + row % 3,
    }
    for row in range(200)
]
FIELDS = {"labels": "labels[].id", "ids": "key", "weights": "w"}
FEATURES = make_longtail(n_points=300, n_features=80, n_labels=20).train


@pytest.fixture(autouse=True)
def _in_files_at_once(monkeypatch):
    monkeypatch.setattr(workspace, "_HELD", 64)
    monkeypatch.setattr(workspace, "_LEAST", 64)


def root_of(array):
    while isinstance(array, np.ndarray):
        array = array.base
    return array


def assert_mapped_and_same(found, wanted):
    for name in ("Y", "X"):
        one, other = getattr(found, name), getattr(wanted, name)
        assert (one is None) == (other is None)
        if one is not None:
            assert one.shape == other.shape
            assert isinstance(root_of(one.data), mmap.mmap)
            assert isinstance(root_of(one.indices), mmap.mmap)
            for part in ("data", "indices", "indptr"):
                np.testing.assert_array_equal(getattr(one, part), getattr(other, part))
                assert getattr(one, part).dtype == getattr(other, part).dtype
    for name in ("texts", "ids"):
        one, other = getattr(found, name), getattr(wanted, name)
        assert one == other
        assert one is None or isinstance(root_of(one.buffer), mmap.mmap)
    assert found.label_names == wanted.label_names
    assert (found.weights is None) == (wanted.weights is None)
    assert found.weights is None or np.array_equal(found.weights, wanted.weights)


def lines(records):
    return "".join(json.dumps(record) + "\n" for record in records).encode()


def write_texts(folder, name):
    if name == "parts":
        (folder / name).mkdir()
        (folder / name / "a.jsonl").write_bytes(lines(RECORDS[:70]))
        (folder / name / "b.jsonl.gz").write_bytes(gzip.compress(lines(RECORDS[70:])))
    elif name.endswith(".gz"):
        (folder / name).write_bytes(gzip.compress(lines(RECORDS)))
    else:
        (folder / name).write_bytes(lines(RECORDS))
    return folder / name


@pytest.mark.parametrize("name", ["data.jsonl", "data.jsonl.gz", "parts"])
def test_records_are_those_in_memory(tmp_path, name):
    (tmp_path / "work").mkdir()
    file = write_texts(tmp_path, name)
    found = read_dataset(file, workspace=tmp_path / "work", **FIELDS)
    assert_mapped_and_same(found, read_dataset(file, **FIELDS))
    assert found.has_relevances
    assert list((tmp_path / "work").iterdir()) == []


@pytest.mark.parametrize("name", ["data.csv", "data.parquet", "train_texts.txt"])
def test_tables_and_pairs_of_texts_are_those_in_memory(tmp_path, name):
    made = make_longtail(n_points=150, n_features=80, n_labels=20, kind="text").train
    if name == "train_texts.txt":
        (tmp_path / name).write_text("".join(f"{text}\n" for text in made.texts))
        rows = (made.Y[row].indices for row in range(made.n_points))
        (tmp_path / "train_labels.txt").write_text("".join(" ".join(map(str, row)) + "\n" for row in rows))
    else:
        write_dataset(made, tmp_path / name)
    assert_mapped_and_same(read_dataset(tmp_path / name, workspace=tmp_path), read_dataset(tmp_path / name))


@pytest.mark.parametrize("name", ["data.txt", "data.txt.gz", "part-*.txt"])
def test_features_are_those_in_memory(tmp_path, name):
    for part, rows in (("part-1.txt", slice(0, 100)), ("part-2.txt", slice(100, 300))) if "*" in name else ():
        write_dataset(FEATURES.subset(np.arange(300)[rows]), tmp_path / part)
    if "*" not in name:
        write_dataset(FEATURES, tmp_path / name)
    assert_mapped_and_same(read_dataset(tmp_path / name, workspace=tmp_path), read_dataset(tmp_path / name))


def test_an_error_in_the_data_leaves_no_file(tmp_path):
    (tmp_path / "work").mkdir()
    (tmp_path / "data.jsonl").write_bytes(lines(RECORDS) + b"{broken\n")
    with pytest.raises(DataError, match=r"data.jsonl, line 201: is not a JSON object|data.jsonl:201"):
        read_dataset(tmp_path / "data.jsonl", workspace=tmp_path / "work", **FIELDS)
    assert list((tmp_path / "work").iterdir()) == []


def test_a_workspace_that_is_not_there_is_said_before_reading(tmp_path):
    with pytest.raises(OutputError, match="is not a folder for working copies; make it first"):
        read_dataset(tmp_path / "no.jsonl", workspace=tmp_path / "none")
