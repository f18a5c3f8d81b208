"""Several files as one dataset, and standard input."""

from __future__ import annotations

import glob
import gzip
import io
import json
import os
import resource
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from longtail.core import workspace
from longtail.data import Dataset, read_dataset, write_dataset
from longtail.data.shards import _matching
from longtail.errors import DataError, ModelError

WHOLE = Dataset(
    Y=[[0, 2], [], [1], [0]], texts=["one", "", "drei é", "vier"], label_names=["a", "b", "c"], label_texts=list("ABC")
)


def shards(folder, suffix: str) -> None:
    write_dataset(WHOLE.subset([0, 1]), folder / f"part-0{suffix}")
    write_dataset(WHOLE.subset([2]), folder / f"part-1{suffix}")
    write_dataset(WHOLE.subset([3]), folder / f"part-2{suffix}")
    (folder / "_SUCCESS").write_text("")
    (folder / ".part-0.crc").write_text("x")


@pytest.mark.parametrize("suffix", [".jsonl", ".jsonl.gz", ".parquet", ".csv"])
def test_folders_and_patterns_are_one_dataset(tmp_path, suffix):
    shards(tmp_path, suffix)
    for source in (tmp_path, tmp_path / f"part-*{suffix}", str(tmp_path / "**" / f"*{suffix}")):
        data = read_dataset(source)
        assert data.texts == WHOLE.texts
        assert data.label_names == WHOLE.label_names
        assert (data.Y != WHOLE.Y).nnz == 0
    follows = read_dataset(tmp_path, label_names=["z", "c"])
    assert follows.label_names == ["z", "c", "a", "b"]
    assert follows.Y.toarray()[0].tolist() == [0, 1, 1, 0]


def test_ids_weights_and_label_texts_of_all_shards(tmp_path):
    for i in range(3):
        row = f'{{"id": {i}, "w": {i + 1}, "text": "t{i}", "s": [{{"u": "l{i}", "n": "N{i}"}}]}}\n'
        (tmp_path / f"{i}.jsonl").write_text(row)
    data = read_dataset(tmp_path, labels="s[].u", label_texts="s[].n", ids="id", weights="w")
    assert (list(data.ids), data.weights.tolist()) == (["0", "1", "2"], [1, 2, 3])
    assert (data.label_names, data.label_texts) == (["l0", "l1", "l2"], ["N0", "N1", "N2"])


def test_features_in_shards_take_the_largest_width(tmp_path):
    (tmp_path / "a.txt").write_text("1 2 1\n0 0:1\n")
    (tmp_path / "b.txt").write_text("1 4 3\n2 3:1\n")
    data = read_dataset(tmp_path / "*.txt")
    assert data.X.toarray().tolist() == [[1, 0, 0, 0], [0, 0, 0, 1]]
    assert data.Y.toarray().tolist() == [[1, 0, 0], [0, 0, 1]]


def test_what_does_not_belong_together_is_refused(tmp_path):
    (tmp_path / "train.jsonl").write_text('{"text": "a", "labels": ["x"]}\n')
    (tmp_path / "test.jsonl").write_text('{"text": "a", "labels": ["x"]}\n')
    with pytest.raises(DataError, match=r"holds several splits \(test, train\); give a pattern, e.g. '.*/train\*'"):
        read_dataset(tmp_path)
    (tmp_path / "test.jsonl").rename(tmp_path / "labels.json")
    with pytest.raises(DataError, match=r"holds files of several formats \(.json, .jsonl\); give a pattern"):
        read_dataset(tmp_path)
    with pytest.raises(DataError, match="no file matches this pattern"):
        read_dataset(tmp_path / "*.csv")
    (tmp_path / "none").mkdir()
    with pytest.raises(ModelError, match="not a dataset directory"):
        read_dataset(tmp_path / "none")


def test_features_and_texts_are_not_one_dataset(tmp_path):
    (tmp_path / "a.txt").write_text("0 0:1\n")
    (tmp_path / "b.jsonl").write_text('{"text": "a", "labels": ["x"]}\n')
    with pytest.raises(DataError, match=r"a\.txt: has features, but \S+b\.jsonl has none; read them one after"):
        read_dataset(tmp_path / "*")
    (tmp_path / "a.txt").rename(tmp_path / "c.txt")
    with pytest.raises(DataError, match=r"c\.txt: has features, but \S+b\.jsonl has none"):
        read_dataset(tmp_path / "*")


@pytest.mark.parametrize("make", [os.mkfifo, lambda path: path.symlink_to("nowhere")], ids=["pipe", "dead link"])
def test_what_cannot_be_read_is_not_left_out(make, tmp_path):
    (tmp_path / "a.jsonl").write_text('{"text": "a", "labels": ["x"]}\n')
    (tmp_path / "folder.jsonl").mkdir()
    assert read_dataset(tmp_path).n_points == 1
    make(tmp_path / "b.jsonl")
    for source in (tmp_path, tmp_path / "*.jsonl"):
        with pytest.raises(DataError, match=r"b\.jsonl: is a pipe, a device or a link that leads nowhere; remove it"):
            read_dataset(source)


def test_shards_in_files_do_not_stay_open(tmp_path, monkeypatch):
    monkeypatch.setattr(workspace, "_HELD", 64)  # everything goes to a file
    names = [f"l{i % 7}" for i in range(100)]
    for i, name in enumerate(names):
        row = {"text": f"text {i} " * 20, "labels": [{"id": name, "weight": 0.5}, {"id": "z"}], "id": i, "w": 2}
        (tmp_path / f"{i:03}.jsonl").write_text(json.dumps(row) + "\n")
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) + 60, limits[1]))
    how = {"labels": "labels[].id", "relevance": "weight", "ids": "id", "weights": "w"}
    try:
        data = read_dataset(tmp_path, workspace=tmp_path, **how)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert list(data.texts) == [f"text {i} " * 20 for i in range(100)]
    assert list(data.ids) == [str(i) for i in range(100)]
    assert data.weights.tolist() == [2] * 100
    assert data.label_names == sorted({*names, "z"})
    for row, name in zip(data.Y.toarray(), names, strict=True):
        assert {data.label_names[label]: row[label] for label in np.flatnonzero(row)} == {name: 0.5, "z": 1}
    np.testing.assert_array_equal(read_dataset(tmp_path, **how).Y.toarray(), data.Y.toarray())


def test_patterns_do_not_follow_links_in_circles(tmp_path, monkeypatch):
    for place in ("a.jsonl", "x/b.jsonl", "x/y/[c]/d.jsonl", ".hidden/e.jsonl"):
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / place).write_text(f'{{"text": "{Path(place).stem}", "labels": ["x"]}}\n')
    monkeypatch.chdir(tmp_path)
    patterns = {"**/*.jsonl": "abd", "x/**": "bd", "./**/y/**/*.jsonl": "d", f"{tmp_path}/x/**/*.jsonl": "bd"}
    for pattern in patterns:
        assert {os.path.normpath(name) for name in _matching(pattern) if os.path.isfile(name)} == {
            os.path.normpath(name) for name in glob.glob(pattern, recursive=True) if os.path.isfile(name)
        }
    for name in ("here", "again", "x/y/up"):  # glob would try all of their orders
        os.symlink(tmp_path, tmp_path / name)
    for pattern, texts in patterns.items():
        assert "".join(sorted(read_dataset(pattern).texts)) == texts


def test_a_file_whose_name_looks_like_a_pattern_is_that_file(tmp_path):
    (tmp_path / "a[1].jsonl").write_text('{"text": "a", "labels": ["x"]}\n')
    assert read_dataset(tmp_path / "a[1].jsonl").n_points == 1


def parquet() -> bytes:
    out = io.BytesIO()
    pa.parquet.write_table(pa.table({"text": ["a"], "labels": [["x"]]}), out)
    return out.getvalue()


LINE = b'{"text": "a", "labels": ["x"]}\n'


@pytest.mark.parametrize(
    "content",
    [
        LINE, gzip.compress(LINE), b"[" + LINE + b"]", b"text,labels\na,x\n", b"labels;text\nx;a\n", parquet(),
        b"\xff\xfe" + LINE.decode().encode("utf-16-le"),
    ],
    ids=["lines", "gzip", "array", "csv", "semicolons", "parquet", "utf-16"],
)  # fmt: skip
def test_standard_input(monkeypatch, content):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
    data = read_dataset("-")
    assert (list(data.texts), data.label_names) == (["a"], ["x"])


def test_standard_input_may_hold_features_and_errors_say_where(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"1 2 3\n0,2 1:0.5\n")))
    assert np.array_equal(read_dataset("-").X.toarray(), [[0, 0.5]])
    for content, message in ((b"", "standard input: the file is empty"), (LINE + b"{", "standard input:2: is not")):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
        with pytest.raises(DataError, match=message):
            read_dataset("-")


def test_standard_input_that_is_closed_or_cannot_be_copied(monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "stdin", None)  # as Python has it after `<&-`
    with pytest.raises(DataError, match="standard input: is closed; send data to it, or name a file"):
        read_dataset("-")
    with open(os.open(tmp_path / "file", os.O_WRONLY | os.O_CREAT)) as unreadable:  # as after `0>file`
        monkeypatch.setattr(sys, "stdin", unreadable)
        with pytest.raises(DataError, match=r"standard input: could not be copied .* \(Bad file descriptor\)"):
            read_dataset("-")
