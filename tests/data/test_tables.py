from __future__ import annotations

import gzip
import lzma

import pyarrow as pa
import pyarrow.parquet
import pytest
import zstandard

from longtail.data import Dataset, read_dataset, tables, write_dataset
from longtail.errors import DataError

SAMPLE = 'id,text,labels\n1,"one, ""quoted""\ntwo lines",law; art\n2,zwei é,\n3,,law;9\n'.encode()


def read(folder, content: bytes, name: str = "data.csv", **options) -> Dataset:
    path = folder / name
    path.write_bytes(content)
    return read_dataset(path, **options)


def parquet(folder, columns: dict, **options) -> Dataset:
    path = folder / "data.parquet"
    pa.parquet.write_table(pa.table(columns), path)
    return read_dataset(path, **options)


@pytest.mark.parametrize(
    ("suffix", "compress"), [("", bytes), (".gz", gzip.compress), (".xz", lzma.compress), (".zst", zstandard.compress)]
)
def test_csv_texts_and_labels(tmp_path, suffix, compress):
    data = read(tmp_path, compress(SAMPLE), f"data.csv{suffix}")
    assert list(data.texts) == ['one, "quoted"\ntwo lines', "zwei é", ""]
    assert data.label_names == ["9", "art", "law"]
    assert data.Y.toarray().tolist() == [[0, 1, 1], [0, 0, 0], [1, 0, 1]]


def test_tsv_other_columns_separator_and_names(tmp_path):
    content = b"title\ttags\nNA\tb|a|b\nnull\t\n"
    data = read(tmp_path, content, "data.tsv", text="title", labels="tags", separator="|", label_names=["b"])
    assert list(data.texts) == ["NA", "null"]
    assert data.label_names == ["b", "a"]
    assert data.Y.toarray().tolist() == [[1, 1], [0, 0]]
    assert read(tmp_path, b"text\nx\n", labels=None).Y.shape == (1, 0)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "the file is empty"),
        (b"text,labels\n", "no rows"),
        (b"text,tags\na,b\n", "data.csv: no column 'labels'; columns are text, tags .use --labels-field, labels="),
        (b"text,text,labels\na,b,c\n", "occurs more than once"),
        (b"text,labels\na,b\nc,d,e\n", "Expected 2 columns, got 3"),
        (
            b"text,labels\n\xff,b\n",
            "data.csv:2: is not UTF-8 .*looks like latin-1; use encoding='latin-1', --encoding latin-1",
        ),
        (b"\xa2ext,labels\na,b\n", "data.csv:1: is not UTF-8"),
    ],
)
def test_csv_errors_name_the_file(tmp_path, content, message):
    with pytest.raises(DataError, match=message) as caught:
        read(tmp_path, content)
    assert str(tmp_path / "data.csv") in str(caught.value)


def test_truncated_compression_is_a_data_error_through_pyarrow(tmp_path):
    rows = SAMPLE + b"".join(b"%d,some text %d,a;b\n" % (i, i) for i in range(5000))
    for suffix, compress in ((".gz", gzip.compress), (".xz", lzma.compress), (".zst", zstandard.compress)):
        with pytest.raises(DataError, match="damaged or truncated"):
            read(tmp_path, compress(rows)[:-10], f"data.csv{suffix}")


@pytest.mark.parametrize(
    "labels",
    [
        pa.array([["law", "art"], [], ["law"]]),
        pa.array([["law", "art"], None, ["law"]], pa.large_list(pa.large_string())),
        pa.array(["law; art", "", "law"]),
        pa.array(["law;art", None, "law"]).dictionary_encode(),
    ],
)
def test_parquet_labels_as_lists_or_strings(tmp_path, labels):
    data = parquet(tmp_path, {"text": ["a", "b", "c"], "labels": labels})
    assert data.label_names == ["art", "law"]
    assert data.Y.toarray().tolist() == [[1, 1], [0, 0], [0, 1]]


def test_parquet_whole_numbers_are_labels(tmp_path):
    data = parquet(tmp_path, {"text": ["a"], "labels": [[3, 12]]})
    assert data.label_names == ["12", "3"]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"text": [1, 2], "labels": [["x"], ["y"]]}, "field 'text': row 1: must be a string"),
        ({"text": ["a", "b"], "labels": [["x"], [None]]}, "field 'labels': row 2: a label must be .*, not null"),
        ({"text": ["a", "b"], "labels": [1.5, 2.5]}, "field 'labels': row 1: must be a list of labels"),
        ({"body": ["a"], "labels": [["x"]]}, "no column 'text'; columns are body, labels .use --text-field, text="),
    ],
)
def test_parquet_errors_name_row_and_column(tmp_path, columns, message):
    with pytest.raises(DataError, match=message):
        parquet(tmp_path, columns)


def test_parquet_damage(tmp_path):
    parquet(tmp_path, {"text": ["a"], "labels": [["x"]]})
    content = (tmp_path / "data.parquet").read_bytes()
    for damaged in (b"", content[:-5], content[:20], b"PAR1" + b"x" * 30 + b"PAR1"):
        with pytest.raises(DataError, match="cannot be read"):
            read(tmp_path, damaged, "data.parquet")


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.parquet", "a.csv.gz", "a.tsv.zst"])
def test_what_is_written_is_read_back(tmp_path, name, monkeypatch):
    monkeypatch.setattr(tables, "_ROWS", 2)
    texts = ['quo"te', "two\nlines\r\nthree\r", "tab\there, comma", "", "é東", " outer "]
    data = Dataset(Y=[[0, 2], [1], [], [2], [0, 1, 2], [0]], texts=texts, label_names=["a b", "b,c", "ü"])
    write_dataset(data, tmp_path / name)
    again = read_dataset(tmp_path / name)
    assert again.texts == data.texts
    assert again.label_names == data.label_names
    assert (again.Y != data.Y).nnz == 0


def test_labels_that_csv_cannot_store_are_refused(tmp_path):
    for name in ("a;b", " a", ""):
        with pytest.raises(DataError, match="cannot be written to CSV"):
            write_dataset(Dataset(Y=[[0]], texts=["x"], label_names=[name]), tmp_path / "a.csv")
    with pytest.raises(DataError, match="only features"):
        write_dataset(Dataset(Y=[[0]], X=[[1.0]]), tmp_path / "a.parquet")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("cell", "hints"), [('"a, b"', 1), ("a|b", 1), ("a;b", 0), ("a", 0), ("", 0)])
def test_another_separator_is_hinted_at(tmp_path, caplog, cell, hints):
    (tmp_path / "d.csv").write_text(f"text,labels\nx,{cell}\ny,{cell}\n")
    read_dataset(tmp_path / "d.csv")
    assert ["if it separates labels" in record.getMessage() for record in caplog.records] == [True] * hints
