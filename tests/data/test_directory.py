from __future__ import annotations

import json

import numpy as np
import pytest

from longtail.core import store
from longtail.data import Dataset, read_dataset, write_dataset
from longtail.errors import LongtailError, ModelError, OutputError

DATA = Dataset(
    Y=[[0, 2], [], [1]],
    X=np.array([[0, 1.5], [0, 0], [2, -1]], np.float32),
    texts=["one", "", "drei é"],
    label_names=["a", "ü", "c"],
    label_texts=["apple", "Übung", "citrus"],
    label_parents={"a": ["fruit"], "c": ["fruit", "sour"], "fruit": []},
    ids=["r1", "r2", "ü3"],
    weights=[1, 0.5, 2],
)


def is_mapped(array: np.ndarray) -> bool:
    while array is not None and not isinstance(array, np.memmap):
        array = array.base
    return array is not None


def test_everything_is_kept_and_large_arrays_are_mapped(tmp_path):
    write_dataset(DATA, tmp_path / "d")
    again = read_dataset(tmp_path / "d")
    assert (again.X != DATA.X).nnz == 0
    assert (again.Y != DATA.Y).nnz == 0
    assert again.texts == DATA.texts
    assert again.label_names == DATA.label_names
    assert again.label_texts == DATA.label_texts
    assert again.label_parents == DATA.label_parents
    assert list(again.ids) == ["r1", "r2", "ü3"]
    assert again.weights.tolist() == [1, 0.5, 2]
    for array in (again.X.data, again.X.indices, again.Y.indices, again.texts.buffer):
        assert is_mapped(array)


@pytest.mark.parametrize("data", [Dataset(Y=[[0], [1]], X=[[1.0], [2.0]]), Dataset(Y=[[0]], texts=["a", "b"][:1])])
def test_parts_that_are_absent_stay_absent(tmp_path, data):
    write_dataset(data, tmp_path / "d")
    again = read_dataset(tmp_path / "d")
    for part in ("X", "texts", "label_names", "label_texts", "label_parents", "ids", "weights"):
        assert (getattr(again, part) is None) == (getattr(data, part) is None)


def test_a_slice_of_texts_is_written_without_the_rest(tmp_path):
    texts = Dataset(Y=[[0]] * 3, texts=["secret", "b", "c"]).texts[1:]
    write_dataset(Dataset(Y=[[0]] * 2, texts=texts), tmp_path / "d")
    assert list(read_dataset(tmp_path / "d").texts) == ["b", "c"]
    assert all(b"secret" not in file.read_bytes() for file in (tmp_path / "d").iterdir())


def test_existing_folders_are_kept(tmp_path):
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "mine").write_text("x")
    with pytest.raises(OutputError, match="not empty"):
        write_dataset(DATA, tmp_path / "d", overwrite=True)
    write_dataset(DATA, tmp_path / "e")
    with pytest.raises(OutputError, match="not empty"):
        write_dataset(DATA, tmp_path / "e")
    write_dataset(DATA.subset([0]), tmp_path / "e", overwrite=True)
    assert read_dataset(tmp_path / "e").n_points == 1


def alter(folder, **values) -> None:
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["state"].update(values)
    (folder / "manifest.json").write_text(json.dumps(manifest))


@pytest.mark.parametrize(
    "values",
    [
        {"X.shape": [3, 1]}, {"X.shape": [4, 2]}, {"X.shape": "wide"}, {"Y.shape": [3, -2]}, {"Y.shape": [3, 10**30]},
        {"Y.shape": [3, 9]}, {"parts": ["Y", "X", "Z"]}, {"parts": ["Y"]}, {"parts": ["X"]}, {"parts": 3},
        {"label_parents": 3}, {"label_parents": {"a": 3}},
    ],
)  # fmt: skip
def test_an_altered_manifest_is_refused(tmp_path, values):
    write_dataset(DATA, tmp_path / "d")
    alter(tmp_path / "d", **values)
    with pytest.raises(LongtailError, match=str(tmp_path / "d")):
        read_dataset(tmp_path / "d")


def test_directories_of_format_1_are_still_read(tmp_path):
    write_dataset(Dataset(Y=[[0], []], texts=["a", "b"]), tmp_path / "d")
    manifest = json.loads((tmp_path / "d" / "manifest.json").read_text()) | {"format": 1}
    (tmp_path / "d" / "manifest.json").write_text(json.dumps(manifest | {"sha256": store.json_digest(manifest)}))
    again = read_dataset(tmp_path / "d")
    assert list(again.texts) == ["a", "b"]
    assert again.ids is None


def test_altered_arrays_and_other_folders_are_refused(tmp_path):
    write_dataset(DATA, tmp_path / "d")
    (file,) = (tmp_path / "d").glob("*.safetensors")
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    with pytest.raises(ModelError, match="altered"):
        read_dataset(tmp_path / "d")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ModelError, match="not a dataset directory"):
        read_dataset(tmp_path / "empty")
