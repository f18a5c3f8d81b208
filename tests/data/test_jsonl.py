from __future__ import annotations

import gzip
import lzma

import pytest
import zstandard

from longtail.data import Dataset, read_dataset
from longtail.data.jsonl import read_jsonl, write_jsonl
from longtail.errors import DataError, OutputError

SAMPLE = (
    '{"id": 7, "text": "Straße\\nzwei", "labels": ["law", "art"]}\n\n'
    '{"text": "", "labels": [], "more": {"a": NaN}}\r\n'
    '{"labels": [10, "9", "law"], "text": "three"}'
).encode()


def read(folder, content: bytes, name: str = "data.jsonl", **options) -> Dataset:
    path = folder / name
    path.write_bytes(content)
    return read_dataset(path, **options)


@pytest.mark.parametrize(
    ("suffix", "compress"), [("", bytes), (".gz", gzip.compress), (".xz", lzma.compress), (".zst", zstandard.compress)]
)
def test_reads_texts_and_labels(tmp_path, suffix, compress):
    data = read(tmp_path, compress(SAMPLE), f"data.jsonl{suffix}")
    assert list(data.texts) == ["Straße\nzwei", "", "three"]
    assert data.label_names == ["10", "9", "art", "law"]
    assert data.Y.toarray().tolist() == [[0, 0, 1, 1], [0, 0, 0, 0], [1, 1, 0, 1]]


def test_ids_follow_given_names_and_others_come_after(tmp_path):
    data = read(tmp_path, SAMPLE, label_names=["law", "unused"])
    assert data.label_names == ["law", "unused", "10", "9", "art"]
    assert data.Y.toarray().tolist() == [[1, 0, 0, 0, 1], [0, 0, 0, 0, 0], [1, 0, 1, 1, 0]]


def test_other_field_names_and_no_labels_at_all(tmp_path):
    data = read(tmp_path, b'{"title": "a", "tags": ["x"]}\n', text="title", labels="tags")
    assert (list(data.texts), data.label_names) == (["a"], ["x"])
    unlabelled = read(tmp_path, b'{"text": "a"}\n{"text": "b"}\n', labels=None, label_names=["x", "y"])
    assert unlabelled.Y.shape == (2, 2)
    assert unlabelled.Y.nnz == 0


@pytest.mark.parametrize(
    ("bad", "field", "message"),
    [
        (b'{"text": "a", "labels": [', None, "is not a JSON object .Expecting value at column 26"),
        (b'["a"]', None, "must be a JSON object, not a list"),
        (b"3", None, "must be a JSON object, not a number"),
        (b"null", None, "not null"),
        (b'{"labels": []}', "text", "is missing; fields here: 'labels'"),
        (b'{"text": "a"}', "labels", "is missing; fields here: 'text'"),
        (b'{"text": 3, "labels": []}', "text", "must be a string, not a number"),
        (b'{"text": "a", "labels": "law"}', "labels", "must be a list of labels, not a string"),
        (b'{"text": "a", "labels": [true]}', "labels", "not true"),
        (b'{"text": "a", "labels": [1.5]}', "labels", "not 1.5"),
        (b'{"text": "a", "labels": [null]}', "labels", "not null"),
        (b'{"text": "a", "labels": [""]}', "labels", "non-empty"),
        (b'{"text": "a", "labels": [["x"]]}', "labels", 'not \\["x"\\]'),
        (b'{"text": "\xe9", "labels": []}', None, "is not UTF-8"),
        (b'{"text": "\\ud800", "labels": []}', "text", "not valid Unicode"),
        (b'{"text": "a", "labels": ["\\ud800"]}', "labels", "not valid Unicode"),
        (b"[" * 100_000, None, "is not a JSON object"),
        (b'{"text": "a", "labels": [' + b"1" * 5000 + b"]}", None, "is not a JSON object"),
    ],
)
def test_errors_name_file_line_and_field(tmp_path, bad, field, message):
    with pytest.raises(DataError, match=message) as caught:
        read(tmp_path, b'{"text": "fine", "labels": ["x"]}\n' + bad + b"\n")
    assert (caught.value.line, caught.value.field) == (2, field)
    assert str(caught.value).startswith(f"{tmp_path / 'data.jsonl'}:2")


def test_empty_and_truncated_files(tmp_path):
    for content in (b"", b"\n \n"):
        with pytest.raises(DataError, match="empty"):
            read(tmp_path, content)
    for suffix, compress in ((".gz", gzip.compress), (".xz", lzma.compress), (".zst", zstandard.compress)):
        with pytest.raises(DataError, match="damaged or truncated"):
            read(tmp_path, compress(SAMPLE)[:-10], f"data.jsonl{suffix}")


@pytest.mark.parametrize("suffix", ["", ".gz", ".xz", ".zst"])
def test_what_is_written_is_read_back(tmp_path, suffix):
    data = read(tmp_path, SAMPLE)
    path = tmp_path / f"again.jsonl{suffix}"
    write_jsonl(data, path)
    again = read_jsonl(path)
    assert again.texts == data.texts
    assert again.label_names == data.label_names
    assert (again.Y != data.Y).nnz == 0
    with pytest.raises(OutputError, match="exists"):
        write_jsonl(data, path)


def test_writer_without_names_writes_ids_and_needs_texts(tmp_path):
    write_jsonl(Dataset(Y=[[1], [0, 1]], texts=["a", "b"]), tmp_path / "a.jsonl")
    assert (tmp_path / "a.jsonl").read_text() == '{"text": "a", "labels": [1]}\n{"text": "b", "labels": [0, 1]}\n'
    with pytest.raises(DataError, match="only features"):
        write_jsonl(Dataset(Y=[[1]], X=[[1.0]]), tmp_path / "b.jsonl")
    assert not (tmp_path / "b.jsonl").exists()


def test_a_byte_order_mark_before_the_first_line_is_skipped(tmp_path):
    file = tmp_path / "windows.jsonl"
    file.write_bytes(b'\xef\xbb\xbf{"text": "one", "labels": ["a"]}\r\n{"text": "two", "labels": []}\r\n')
    assert list(read_jsonl(file).texts) == ["one", "two"]
