"""Tables in memory, and Hugging Face datasets in memory and on disk."""

from __future__ import annotations

import shutil

import pyarrow as pa
import pytest

from longtail.data import read_dataset
from longtail.errors import DataError, ParameterError

COLUMNS = {
    "no": [11, 12, 13],
    "title": ["a", "b", None],
    "abstract": ["x", None, "z"],
    "subjects": [["law", "art"], [], ["law"]],
    "other": [1.5, 2.5, 3.5],
}


def assert_read(data) -> None:
    assert list(data.texts) == ["a x", "b", "z"]
    assert data.label_names == ["art", "law"]
    assert data.Y.toarray().tolist() == [[1, 1], [0, 0], [0, 1]]
    assert list(data.ids) == ["11", "12", "13"]


OPTIONS = {"text": ["title", "abstract"], "labels": "subjects", "ids": "no"}


def test_data_frames():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(COLUMNS)
    assert_read(read_dataset(frame, **OPTIONS))
    assert_read(read_dataset(frame.set_index("no"), **OPTIONS))
    frame["subjects"] = ["law|art", "", "law"]
    assert_read(read_dataset(frame, **OPTIONS, separator="|"))
    with pytest.raises(DataError, match=r"no column 'body'; columns are no, title, .*use --text-field, text= in"):
        read_dataset(frame, text="body", labels="subjects")
    with pytest.raises(DataError, match="give a DataFrame"):
        read_dataset(frame["title"])
    with pytest.raises(DataError, match="cannot be read as a table"):
        read_dataset(frame.assign(title=["a", 1, []]), **OPTIONS)
    with pytest.raises(DataError, match="field 'other': row 1: must be a string"):
        read_dataset(frame, text="other", labels="subjects")
    with pytest.raises(DataError, match="no rows"):
        read_dataset(frame.iloc[:0], **OPTIONS)
    with pytest.raises(ParameterError, match="n_features and n_labels apply to features"):
        read_dataset(frame, **OPTIONS, n_labels=3)


def test_arrow_tables_and_lists_of_dicts():
    assert_read(read_dataset(pa.table(COLUMNS), **OPTIONS))
    assert_read(read_dataset(pa.table(COLUMNS).to_pylist(), **OPTIONS))
    for wrong, message in (
        (3, "cannot be read from int"),
        ({"text": []}, "cannot be read from dict"),
        ([3], "record 1 is int"),
        ([], "no records"),
    ):
        with pytest.raises(DataError, match=message):
            read_dataset(wrong)


def test_hugging_face_datasets(tmp_path):
    datasets = pytest.importorskip("datasets")
    data = datasets.Dataset.from_dict(COLUMNS)
    assert_read(read_dataset(data, **OPTIONS))
    assert list(read_dataset(data.select([2, 0]), **OPTIONS).ids) == ["13", "11"]
    data.save_to_disk(tmp_path / "one", num_shards=2)
    assert_read(read_dataset(tmp_path / "one", **OPTIONS))
    both = datasets.DatasetDict({"train": data, "test": data})
    both.save_to_disk(tmp_path / "both")
    with pytest.raises(DataError, match=r"has the splits train, test; choose one, e.g. data\['train'\]"):
        read_dataset(both, **OPTIONS)
    with pytest.raises(DataError, match=r"has the splits train, test; give one of them, e.g. .*both/train"):
        read_dataset(tmp_path / "both", **OPTIONS)
    assert_read(read_dataset(tmp_path / "both" / "train", **OPTIONS))
    with pytest.raises(DataError, match="no column 'text'; columns are no, title"):
        read_dataset(tmp_path / "one")


def test_class_numbers_of_hugging_face_have_names(tmp_path):
    datasets = pytest.importorskip("datasets")
    kind = datasets.ClassLabel(names=["art", "law"])
    several = datasets.Features({"text": datasets.Value("string"), "labels": datasets.Sequence(kind)})
    data = datasets.Dataset.from_dict({"text": ["a", "b"], "labels": [[1, 0], []]}, features=several)
    single = datasets.Features({"text": datasets.Value("string"), "labels": kind})
    one = datasets.Dataset.from_dict({"text": ["a", "b"], "labels": [1, -1]}, features=single)
    for name, source, expected in (("d", data, [[1, 1], [0, 0]]), ("o", one, [[1], [0]])):
        source.save_to_disk(tmp_path / name)
        for found in (read_dataset(source), read_dataset(tmp_path / name)):
            assert found.label_names[-1] == "law"
            assert found.Y.toarray().tolist() == expected


def test_damaged_folders_are_refused(tmp_path):
    datasets = pytest.importorskip("datasets")
    datasets.Dataset.from_dict(COLUMNS).save_to_disk(tmp_path / "good")
    (arrow,) = (tmp_path / "good").glob("*.arrow")
    for name, content, message in (
        ("state.json", b"{", "state.json: is damaged"),
        ("state.json", b'{"_data_files": [{"filename": "../x"}]}', "names no data files in this folder"),
        ("state.json", b'{"_data_files": 3}', "must be a list"),
        ("state.json", b'{"_data_files": [{"filename": "gone.arrow"}]}', "gone.arrow cannot be read"),
        (arrow.name, b"", "cannot be read"),
        (arrow.name, arrow.read_bytes()[:200], "cannot be read"),
    ):
        shutil.rmtree(tmp_path / "bad", ignore_errors=True)
        shutil.copytree(tmp_path / "good", tmp_path / "bad")
        (tmp_path / "bad" / name).write_bytes(content)
        with pytest.raises(DataError, match=message):
            read_dataset(tmp_path / "bad", **OPTIONS)
