"""Damaged catalogues: other dialects and encodings, arrays, objects, saved Hugging Face datasets, standard input."""

from __future__ import annotations

import io
import json
import sys

import pytest

from data.mutations import assert_consistent, check_mutations
from longtail.data import Dataset, read_dataset

RECORDS = [
    {
        "id": "b1",
        "title": "Cats",
        "note": 'ä "q"',
        "w": 2,
        "subjects": [{"uri": "y:1", "label": "cats", "weight": 0.5}],
    },
    {"id": 2, "title": "Dogs", "note": None, "w": 0.5, "subjects": [{"uri": "y:1", "label": None}, {"uri": "y:2"}]},
]
PATHS = {
    "text": "title,note", "labels": "subjects[].uri", "label_texts": "subjects[].label", "ids": "id", "weights": "w"
}  # fmt: skip
CSV = 'no;title;note;subjects\r\n1;"a; b";x;law|art\r\n2;ä;"two\nlines";\r\n'
TABLE = {"text": "title,note", "labels": "subjects", "ids": "no", "separator": "|"}


def check(data: Dataset) -> None:
    assert_consistent(data)
    assert data.ids is None or len(list(data.ids)) == data.n_points
    assert data.weights is None or (data.weights > 0).all()
    assert (data.Y.data > 0).all()
    assert (data.Y.data <= 1).all()


@pytest.mark.parametrize(
    ("name", "content", "options"),
    [
        ("a.json", json.dumps(RECORDS, indent=1).encode(), PATHS),
        ("a.jsonl", "\n".join(map(json.dumps, RECORDS)).encode(), PATHS),
        ("a.jsonl", "\n".join(map(json.dumps, RECORDS)).encode("utf-16"), PATHS),
        ("a.csv", CSV.encode(), TABLE),
        ("a.csv", b"sep=;\r\n" + CSV.encode("cp1252"), TABLE | {"encoding": "cp1252"}),
        ("a.csv", CSV.encode("utf-16"), TABLE),
    ],
)
def test_mutated_catalogues(tmp_path, name, content, options):
    path = tmp_path / name
    path.write_bytes(content)
    check(read_dataset(path, **options))
    check_mutations(path, lambda file: read_dataset(file, **options), check, 100)


def test_mutated_saved_datasets(tmp_path):
    datasets = pytest.importorskip("datasets")
    columns = {"no": [1, 2], "title": ["a", "b"], "note": ["x", None], "subjects": [["law"], []]}
    datasets.Dataset.from_dict(columns).save_to_disk(tmp_path / "d")
    for file in sorted((tmp_path / "d").iterdir()):
        check_mutations(file, lambda _: read_dataset(tmp_path / "d", **TABLE), check, 60)


def test_mutated_standard_input(tmp_path, monkeypatch):
    path = tmp_path / "in"
    path.write_bytes(CSV.encode())

    def read(file):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(file.read_bytes())))
        return read_dataset("-", **TABLE)

    check(read(path))
    check_mutations(path, read, check, 60)
