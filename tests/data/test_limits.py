"""Small files that ask for much: refused with the variable that raises the limit."""

from __future__ import annotations

import gzip
import lzma
import tracemalloc

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
import zstandard
from scipy import sparse

from longtail.data import read_dataset, read_predictions
from longtail.data.columns import read_columns
from longtail.data.volume import row_bytes
from longtail.errors import DataError, ParameterError


def refused(path, variable, read=read_dataset):
    with pytest.raises(DataError, match=rf"{path.name}.*set {variable}"):
        read(path)


@pytest.mark.parametrize("line", ["2147483646 0:1\n", "0 2147483646:1\n", "1 5 2000000000\n0 0:1\n"])
def test_implied_widths(tmp_path, line, monkeypatch):
    (tmp_path / "a.txt").write_text(line)
    refused(tmp_path / "a.txt", "LONGTAIL_MAX_COLUMNS")
    (tmp_path / "b.txt").write_text("7 3:1\n")
    assert read_dataset(tmp_path / "b.txt").n_labels == 8
    monkeypatch.setenv("LONGTAIL_MAX_COLUMNS", "7")
    refused(tmp_path / "b.txt", "LONGTAIL_MAX_COLUMNS")
    assert read_dataset(tmp_path / "b.txt", n_labels=8).n_labels == 8, "the caller knows the width"
    monkeypatch.setenv("LONGTAIL_MAX_COLUMNS", "seven")
    with pytest.raises(ParameterError, match="LONGTAIL_MAX_COLUMNS is 'seven', but must be a whole number"):
        read_dataset(tmp_path / "b.txt")


@pytest.mark.parametrize("name", ["a.txt", "a.jsonl", "a_texts.txt"])
def test_long_lines(tmp_path, name, monkeypatch):
    monkeypatch.setenv("LONGTAIL_MAX_LINE_BYTES", str(1 << 20))
    (tmp_path / name).write_bytes(b" " * (1 << 22))
    refused(tmp_path / name, "LONGTAIL_MAX_LINE_BYTES", lambda path: read_dataset(path, labels=None))
    (tmp_path / name).write_bytes(b"0 1:1\n" + b" " * (1 << 22))
    with pytest.raises(DataError):
        read_dataset(tmp_path / name, labels=None)


def test_long_lines_of_predictions(tmp_path, monkeypatch):
    monkeypatch.setenv("LONGTAIL_MAX_LINE_BYTES", "1000")
    (tmp_path / "p.txt").write_bytes(b"1:1\n" + b" " * 2000)
    refused(tmp_path / "p.txt", "LONGTAIL_MAX_LINE_BYTES", read_predictions)


def test_fields_columns_and_depth(tmp_path, monkeypatch):
    monkeypatch.setenv("LONGTAIL_MAX_FIELDS", "30")
    (tmp_path / "a.jsonl").write_text("{" + ", ".join(f'"{i}": 1' for i in range(31)) + "}\n")
    refused(tmp_path / "a.jsonl", "LONGTAIL_MAX_FIELDS")
    (tmp_path / "a.csv").write_text(",".join(f"c{i}" for i in range(31)) + "\n")
    refused(tmp_path / "a.csv", "LONGTAIL_MAX_FIELDS")
    (tmp_path / "a.csv").write_text(",".join(f"c{i}" for i in range(30)) + "\n")
    with pytest.raises(DataError, match=r"columns are c0, .*, c19, \.\.\. \(use"):
        read_dataset(tmp_path / "a.csv")
    (tmp_path / "a.jsonl").write_text('{"text": ' + "[" * 100_000)
    with pytest.raises(DataError, match="nested too deeply"):
        read_dataset(tmp_path / "a.jsonl")


COMPRESS = {
    "gz": lambda content: gzip.compress(content, 9),
    "xz": lambda content: lzma.compress(content, preset=0),
    "zst": lambda content: zstandard.compress(content, 3),
}


@pytest.mark.parametrize("ending", COMPRESS)
def test_bombs(tmp_path, ending, monkeypatch):
    monkeypatch.setenv("LONGTAIL_MAX_CONTENT_BYTES", str(1 << 21))
    path = tmp_path / f"a.txt.{ending}"
    path.write_bytes(COMPRESS[ending](b"\n" * (1 << (28 if ending == "zst" else 25))))
    tracemalloc.start()
    try:
        refused(path, "LONGTAIL_MAX_GROWTH")
        assert tracemalloc.get_traced_memory()[1] < 100 << 20, "what one piece of 2 KiB can become, and a bit"
    finally:
        tracemalloc.stop()
    path.write_bytes(COMPRESS[ending](b"0 1:1\n" * 300_000))
    assert path.stat().st_size * 100 < 6 * 300_000 < 1 << 21
    assert read_dataset(path).n_points == 300_000, "small enough, whatever the factor"


def test_archives(tmp_path, monkeypatch):
    wide = sparse.csr_matrix(([1.0], [5], [0, 1]), shape=(1, 200_000_000))
    sparse.save_npz(tmp_path / "a.X.npz", wide)
    sparse.save_npz(tmp_path / "a.Y.npz", sparse.csr_matrix([[1]]))
    refused(tmp_path / "a.X.npz", "LONGTAIL_MAX_COLUMNS")
    sparse.save_npz(tmp_path / "a.X.npz", sparse.coo_matrix(([1.0], ([0], [0])), shape=(2_000_000_000, 3)))
    refused(tmp_path / "a.X.npz", "LONGTAIL_MAX_COLUMNS")
    monkeypatch.setenv("LONGTAIL_MAX_CONTENT_BYTES", str(1 << 20))
    for name, read in (("b.X.npz", read_dataset), ("p.npz", read_predictions)):
        np.savez_compressed(tmp_path / name, data=np.zeros(1 << 21), labels=np.zeros((2, 2)))
        (tmp_path / "b.Y.npz").write_bytes(b"")
        refused(tmp_path / name, "LONGTAIL_MAX_GROWTH", read)
    monkeypatch.setenv("LONGTAIL_MAX_FIELDS", "1")
    refused(tmp_path / "p.npz", "LONGTAIL_MAX_FIELDS", read_predictions)


def test_values_that_a_table_stores_once_are_counted_as_often_as_they_occur(tmp_path, monkeypatch):
    once = pa.DictionaryArray.from_arrays(pa.array([0] * 50), ["x" * 100_000])
    table = pa.table({"text": once, "labels": [["a"]] * 50})
    pa.parquet.write_table(table, tmp_path / "a.parquet")
    assert read_dataset(tmp_path / "a.parquet").n_points == 50
    monkeypatch.setenv("LONGTAIL_MAX_CONTENT_BYTES", str(1 << 21))
    refused(tmp_path / "a.parquet", "LONGTAIL_MAX_GROWTH")
    refused(tmp_path / "a.parquet", "LONGTAIL_MAX_GROWTH", lambda path: read_columns(path, ["text"]))


def test_columns_whose_values_overlap_are_refused():
    runs = pa.RunEndEncodedArray.from_arrays(pa.array([2**31 - 2], pa.int32()), ["x"])
    for array in (runs, pa.array([["a"]], pa.list_view(pa.string()))):
        with pytest.raises(DataError, match="are not read; use strings, or lists of strings"):
            row_bytes(array)
