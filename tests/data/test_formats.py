from __future__ import annotations

import numpy as np
import pytest

from longtail.data import Dataset, read_dataset, write_dataset
from longtail.errors import DataError, OutputError, ParameterError

FEATURES = Dataset(Y=[[0, 2], [], [1]], X=np.array([[0, 1.5], [0, 0], [2, -1]], np.float32))
TEXTS = Dataset(Y=[[0, 2], [], [1]], texts=["one", "", "drei é"], label_names=["a", "b", "c"])


@pytest.mark.parametrize("name", ["a.txt", "a.svm.gz", "a.xc.xz", "A.TXT", "a.X.npz", "folder"])
def test_features_survive_every_format(tmp_path, name):
    write_dataset(FEATURES, tmp_path / name)
    again = read_dataset(tmp_path / name)
    assert (again.X != FEATURES.X).nnz == 0
    assert (again.Y != FEATURES.Y).nnz == 0
    wide = read_dataset(tmp_path / name, n_features=4, n_labels=5)
    assert (wide.n_features, wide.n_labels) == (4, 5)
    with pytest.raises(DataError, match="2 features, but 1 are expected"):
        read_dataset(tmp_path / name, n_features=1)
    with pytest.raises(DataError, match="3 labels, but 2 are expected"):
        read_dataset(tmp_path / name, n_labels=2)


@pytest.mark.parametrize("name", ["a.jsonl", "a.json.gz", "a.csv", "a.tsv.xz", "a.parquet", "folder"])
def test_texts_and_names_survive_every_format(tmp_path, name):
    write_dataset(TEXTS, tmp_path / name)
    again = read_dataset(tmp_path / name)
    assert again.texts == TEXTS.texts
    assert again.label_names == TEXTS.label_names
    assert (again.Y != TEXTS.Y).nnz == 0


@pytest.mark.parametrize("name", ["a.jsonl", "a.csv", "a.parquet", "folder"])
def test_ids_follow_the_given_names(tmp_path, name):
    write_dataset(TEXTS, tmp_path / name)
    again = read_dataset(tmp_path / name, label_names=["z", "c"])
    assert again.label_names == ["z", "c", "a", "b"]
    assert again.Y.toarray().tolist() == [[0, 1, 1, 0], [0, 0, 0, 0], [0, 0, 0, 1]]


def test_label_texts_and_parents_follow_the_given_names(tmp_path):
    data = Dataset(
        Y=[[0, 1]], texts=["x"], label_names=["a", "b"], label_texts=["A", "B"], label_parents={"a": ["top"]}
    )
    write_dataset(data, tmp_path / "folder")
    again = read_dataset(tmp_path / "folder", label_names=["b", "z"])
    assert again.label_names == ["b", "z", "a"]
    assert again.label_texts == ["B", "z", "A"]
    assert again.label_parents == {"a": ["top"]}


def test_files_without_names_take_the_positions_of_the_list(tmp_path):
    write_dataset(FEATURES, tmp_path / "a.txt")
    assert read_dataset(tmp_path / "a.txt", label_names=["p", "q", "r", "s"]).label_names == ["p", "q", "r", "s"]
    wider = read_dataset(tmp_path / "a.txt", label_names=["p"])
    assert wider.label_names == ["p", "1", "2"]
    assert wider.n_labels == 3


def test_unsupported_extensions_and_missing_files(tmp_path):
    (tmp_path / "a.xlsx").write_bytes(b"x")
    (tmp_path / "a.parquet.gz").write_bytes(b"x")
    for name in ("a.xlsx", "a.parquet.gz"):
        with pytest.raises(DataError, match=r"unsupported extension '.*'; use a dataset directory, an XC file \(.txt"):
            read_dataset(tmp_path / name)
    with pytest.raises(DataError, match="does not exist"):
        read_dataset(tmp_path / "none.txt")
    with pytest.raises(DataError, match=r"unsupported extension '\.xlsx'"):
        write_dataset(FEATURES, tmp_path / "b.xlsx")
    with pytest.raises(OutputError, match="does not exist"):
        write_dataset(FEATURES, tmp_path / "nowhere" / "b.txt")


def test_options_that_cannot_be_used_are_refused(tmp_path):
    write_dataset(TEXTS, tmp_path / "a.jsonl")
    write_dataset(TEXTS, tmp_path / "a.csv")
    write_dataset(TEXTS, tmp_path / "folder")
    with pytest.raises(ParameterError, match="n_features"):
        read_dataset(tmp_path / "a.jsonl", n_features=3)
    with pytest.raises(ParameterError, match="twice"):
        read_dataset(tmp_path / "folder", label_names=["a", "a"])
    with pytest.raises(ParameterError, match="separator"):
        read_dataset(tmp_path / "a.csv", separator="")
    with pytest.raises(DataError, match="3 named labels, but n_labels is 9"):
        read_dataset(tmp_path / "folder", n_labels=9)


def test_errors_of_the_dataset_itself_name_the_file(tmp_path):
    from scipy import sparse

    sparse.save_npz(tmp_path / "X.npz", sparse.csr_matrix(np.array([[np.nan]])))
    sparse.save_npz(tmp_path / "Y.npz", sparse.csr_matrix(np.array([[1.0]])))
    with pytest.raises(DataError, match="NaN") as caught:
        read_dataset(tmp_path / "X.npz")
    assert str(tmp_path / "X.npz") in str(caught.value)


def test_a_writer_that_fails_midway_leaves_the_old_file(tmp_path, monkeypatch):
    write_dataset(FEATURES, tmp_path / "a.txt")
    before = (tmp_path / "a.txt").read_bytes()

    def fail(*args: object) -> bytes:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("longtail.data.xc._formatted", fail)
    with pytest.raises(OutputError, match="No space left"):
        write_dataset(FEATURES, tmp_path / "a.txt", overwrite=True)
    assert (tmp_path / "a.txt").read_bytes() == before
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize(
    ("name", "lost"), [("d.txt", "texts and label names"), ("d.jsonl", "features"), ("d.csv", "features"), ("d", None)]
)
def test_what_a_format_cannot_store_is_reported(tmp_path, caplog, name, lost):
    data = Dataset(Y=[[0], [1]], X=np.eye(2), texts=["x", "y"], label_names=["a", "b"])
    write_dataset(data, tmp_path / name)
    messages = [record.getMessage() for record in caplog.records]
    assert [f"cannot store the {lost}, which" in message for message in messages] == [True] * bool(lost)
