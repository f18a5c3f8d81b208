"""Datasets in two files: the second is found by the name of the first."""

from __future__ import annotations

import gzip
import subprocess
import sys

import numpy as np
import pytest

from longtail.data import Dataset, read_dataset, write_dataset
from longtail.errors import DataError, OutputError

FEATURES = b"3 4\n0:1 2:0.5\n\n3:2 1:-1\n"
LABELS = b"3 5\n4:1 0:1\n1:1.0 2:0\n\n"


def test_features_and_labels_of_the_xc_repository(tmp_path):
    (tmp_path / "trn_X_Xf.txt").write_bytes(FEATURES)
    (tmp_path / "trn_X_Y.txt").write_bytes(LABELS)
    data = read_dataset(tmp_path / "trn_X_Xf.txt")
    np.testing.assert_array_equal(data.X.toarray(), [[1, 0, 0.5, 0], [0, 0, 0, 0], [0, -1, 0, 2]])
    np.testing.assert_array_equal(data.Y.toarray(), [[1, 0, 0, 0, 1], [0, 1, 0, 0, 0], [0, 0, 0, 0, 0]])
    wide = read_dataset(tmp_path / "trn_X_Xf.txt", n_features=6, n_labels=7)
    assert (wide.n_features, wide.n_labels) == (6, 7)
    with pytest.raises(DataError, match="the header says 5 labels, but 4 are expected"):
        read_dataset(tmp_path / "trn_X_Xf.txt", n_labels=4)


def test_a_pair_is_what_the_single_file_is(tmp_path):
    rng = np.random.default_rng(0)
    X, Y = rng.random((40, 7)).astype(np.float32), rng.random((40, 9)) < 0.2
    X[X < 0.5] = 0
    for name, matrix in (("Xf", X), ("Y", Y)):
        lines = [" ".join(f"{i}:{float(row[i])!r}" for i in np.flatnonzero(row)) for row in matrix]
        header = f"{matrix.shape[0]} {matrix.shape[1]}\n"
        (tmp_path / f"a_X_{name}.txt.gz").write_bytes(gzip.compress((header + "\n".join(lines) + "\n").encode()))
    write_dataset(Dataset(Y=Y, X=X), tmp_path / "a.txt")
    pair, single = read_dataset(tmp_path / "a_X_Xf.txt.gz"), read_dataset(tmp_path / "a.txt")
    assert (pair.X != single.X).nnz == 0
    assert (pair.Y != single.Y).nnz == 0


@pytest.mark.parametrize("name", ["train_texts.txt", "train_raw_texts.txt", "train_texts.txt.gz"])
def test_texts_and_labels_in_lines(tmp_path, name):
    content = "the first law\n\nStraße, zwei\n".encode()
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    (tmp_path / "train_labels.txt").write_text("law tax\n\ntax law tax\n")
    data = read_dataset(tmp_path / name)
    assert list(data.texts) == ["the first law", "", "Straße, zwei"]
    assert data.label_names == ["law", "tax"]
    assert data.Y.toarray().tolist() == [[1, 1], [0, 0], [1, 1]]
    assert read_dataset(tmp_path / name, label_names=["tax"]).label_names == ["tax", "law"]
    (tmp_path / "train_labels.txt").unlink()
    assert read_dataset(tmp_path / name, labels=None).Y.shape == (3, 0)
    with pytest.raises(DataError, match=r"no train_labels\.txt beside it"):
        read_dataset(tmp_path / name)


@pytest.mark.parametrize(
    ("features", "labels", "message"),
    [
        (FEATURES, b"2 5\n1:1\n2:1\n", r"has 3 points, but b_X_Y\.txt has the labels of 2"),
        (b"0:1\n", LABELS, r"must begin with a line 'points features'"),
        (b"3 4 5\n0:1\n", LABELS, r"must begin with a line 'points features'"),
        (b"1 4\n9:1\n", LABELS, "the feature at '9:1' is out of range: there are 4 features"),
        (b"2 4\n0:1\n", LABELS, "the header says 2 points, but the file ends after 1"),
    ],
)
def test_pairs_that_do_not_fit(tmp_path, features, labels, message):
    (tmp_path / "b_X_Xf.txt").write_bytes(features)
    (tmp_path / "b_X_Y.txt").write_bytes(labels)
    with pytest.raises(DataError, match=message):
        read_dataset(tmp_path / "b_X_Xf.txt")


def test_texts_and_labels_must_be_equally_many(tmp_path):
    (tmp_path / "a_texts.txt").write_text("one\ntwo\n")
    (tmp_path / "a_labels.txt").write_text("x\n")
    with pytest.raises(DataError, match=r"has 2 points, but a_labels\.txt has the labels of 1"):
        read_dataset(tmp_path / "a_texts.txt")
    (tmp_path / "a_texts.txt").write_bytes(b"one\n\xff\n")
    with pytest.raises(DataError, match="is not UTF-8") as caught:
        read_dataset(tmp_path / "a_texts.txt")
    assert caught.value.line == 2
    (tmp_path / "a_texts.txt").write_text("")
    with pytest.raises(DataError, match="the file is empty"):
        read_dataset(tmp_path / "a_texts.txt")


@pytest.mark.parametrize("name", ["a_X_Xf.txt", "a_texts.txt"])
def test_names_of_pairs_are_not_written(tmp_path, name):
    with pytest.raises(OutputError, match="belongs to a pair of files"):
        write_dataset(Dataset(Y=[[0]], X=np.eye(1)), tmp_path / name)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["texts.txt", "contexts.txt"])
def test_other_names_are_xc_files(tmp_path, name):
    (tmp_path / name).write_bytes(b"1 2 3\n0 1:1\n")
    assert read_dataset(tmp_path / name).n_labels == 3


@pytest.mark.parametrize("name", ["a.jsonl", "a.csv", "a.parquet"])
def test_several_fields_make_one_text(tmp_path, name):
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet

    rows = {"title": ["A", "C"], "content": ["b", ""], "a,b": ["own", "name"], "target_ind": ["3", "0"]}
    if name == "a.jsonl":
        lines = [
            f'{{"title": "{t}", "content": "{c}", "a,b": "{ab}", "target_ind": [{i}], "target_rel": [1.0]}}'
            for t, c, ab, i in zip(*rows.values(), strict=True)
        ]
        (tmp_path / name).write_text("\n".join(lines))
    else:
        write = pa.csv.write_csv if name == "a.csv" else pa.parquet.write_table
        write(pa.table(rows), tmp_path / name)
    data = read_dataset(tmp_path / name, text="title,content", labels="target_ind")
    assert list(data.texts) == ["A b", "C"]
    assert data.label_names == ["0", "3"]
    assert data.Y.toarray().tolist() == [[0, 1], [1, 0]]
    assert list(read_dataset(tmp_path / name, text="a,b", labels="target_ind").texts) == ["own", "name"]
    said = "field 'body': is in no record" if name == "a.jsonl" else "no column 'body'; columns are title, content"
    with pytest.raises(DataError, match=said):
        read_dataset(tmp_path / name, text="title,body", labels="target_ind")


def test_lists_of_texts_in_joined_fields(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"title": "T", "body": ["one", "two"], "labels": ["x"]}\n')
    assert list(read_dataset(tmp_path / "a.jsonl", text="title,body").texts) == ["T one two"]
    for field in ("body", "title,labels,missing"):
        with pytest.raises(DataError, match=r"must be a string, not a list|is in no record"):
            read_dataset(tmp_path / "a.jsonl", text=field)
    (tmp_path / "a.jsonl").write_text('{"title": "T", "body": ["one", 2], "labels": ["x"]}\n')
    with pytest.raises(DataError, match="must be a string, not a list"):
        read_dataset(tmp_path / "a.jsonl", text="title,body")


def test_reading_texts_imports_no_compiler(tmp_path):
    (tmp_path / "a_texts.txt").write_text("one\n")
    (tmp_path / "a_labels.txt").write_text("x\n")
    code = f"from longtail import read_dataset; import sys; read_dataset({str(tmp_path / 'a_texts.txt')!r})"
    code += "; sys.exit('numba' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
