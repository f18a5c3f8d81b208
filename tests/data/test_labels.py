from __future__ import annotations

import json
import lzma

import pytest

from longtail.data import read_label_table
from longtail.data.labels import LabelCollector
from longtail.errors import DataError, ParameterError


def test_ids_are_in_sorted_order_whatever_the_order_of_points():
    collector = LabelCollector()
    for names in (["pear", "apple"], [], ["fig", "fig"]):
        collector.add_point(names)
    Y, names = collector.finish()
    assert names == ["apple", "fig", "pear"]
    assert Y.toarray().tolist() == [[1, 0, 1], [0, 0, 0], [0, 1, 0]]
    assert Y.has_sorted_indices


def test_given_names_come_first_and_new_ones_follow():
    collector = LabelCollector(["pear", "plum"])
    collector.add_point(["fig", "pear", "apple"])
    Y, names = collector.finish()
    assert names == ["pear", "plum", "apple", "fig"]
    assert Y.toarray().tolist() == [[1, 0, 1, 1]]
    with pytest.raises(ParameterError, match="twice"):
        LabelCollector(["a", "a"])


def test_reads_names_alone_and_descriptions(tmp_path):
    plain = tmp_path / "labels.json"
    plain.write_text(json.dumps({"p1": "art", "p2": "law"}))
    assert read_label_table(plain).names == {"p1": "art", "p2": "law"}
    rich = tmp_path / "labels.json.xz"
    entries = {"1": {"label": "law", "alt_labels": ["acts"], "parents": ["2"]}, "2": {"label": "order"}}
    rich.write_bytes(lzma.compress(json.dumps(entries).encode()))
    table = read_label_table(rich)
    assert table.names == {"1": "law", "2": "order"}
    assert table.alternatives == {"1": ["acts"], "2": []}
    assert table.parents == {"1": ["2"], "2": []}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"[1]", "one JSON object"),
        (b'{"a": 3}', "field 'a': must be a name"),
        (b'{"a": {"label": 3}}', "field 'a': must be a name"),
        (b'{"a": {"label": "x", "parents": "b"}}', "field 'a.parents': must be a list of strings"),
        (b"{", "is not JSON"),
        (b'{"a": "\xff"}', "is not JSON in UTF-8"),
        (b"[" * 100_000, "is not JSON"),
    ],
)
def test_table_errors_name_file_and_field(tmp_path, content, message):
    path = tmp_path / "labels.json"
    path.write_bytes(content)
    with pytest.raises(DataError, match=message) as caught:
        read_label_table(path)
    assert str(path) in str(caught.value)
