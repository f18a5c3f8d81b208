from __future__ import annotations

import io
import json
import zipfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from longtail.core.predictions import Predictions
from longtail.data import read_predictions, write_predictions
from longtail.data.columns import read_columns
from longtail.errors import DataError, OutputError, ParameterError

PREDICTIONS = Predictions(
    np.array([[3, 0, 7], [2, -1, -1], [-1, -1, -1], [1, 0, -1]]),
    np.array([[0.1, 1e-9, -3.4e38], [2 / 3, -np.inf, -np.inf], [-np.inf] * 3, [5, 5, -np.inf]], np.float32),
)
NAMES = [f"näme {i}" for i in range(8)]


def read(folder, content: bytes, name: str, **options) -> Predictions:
    (folder / name).write_bytes(content)
    return read_predictions(folder / name, **options)


@pytest.mark.parametrize(
    "name", ["p.npz", "p.jsonl", "p.txt", "p.jsonl.gz", "p.txt.zst", "p.csv", "p.tsv.xz", "p.parquet"]
)
def test_predictions_are_read_back_exactly(tmp_path, name):
    write_predictions(PREDICTIONS, tmp_path / name)
    again = read_predictions(tmp_path / name)
    np.testing.assert_array_equal(again.labels, PREDICTIONS.labels)
    np.testing.assert_array_equal(again.scores, PREDICTIONS.scores)
    with pytest.raises(OutputError, match="exists"):
        write_predictions(PREDICTIONS, tmp_path / name)
    write_predictions(PREDICTIONS[:1], tmp_path / name, overwrite=True)
    assert len(read_predictions(tmp_path / name)) == 1


def test_text_forms(tmp_path):
    write_predictions(PREDICTIONS[3:], tmp_path / "p.txt")
    assert (tmp_path / "p.txt").read_text() == "1:5 0:5\n"
    write_predictions(PREDICTIONS[:2], tmp_path / "p.jsonl", NAMES)
    first, second = (tmp_path / "p.jsonl").read_text(encoding="utf-8").splitlines()
    assert first == '{"labels": ["näme 3", "näme 0", "näme 7"], "scores": [0.1, 1e-09, -3.4e+38]}'
    assert second == '{"labels": ["näme 2"], "scores": [0.6666667]}'


def test_names_are_mapped_and_unknown_ones_get_ids_after_them(tmp_path):
    write_predictions(PREDICTIONS, tmp_path / "p.jsonl", NAMES)
    again = read_predictions(tmp_path / "p.jsonl", label_names=NAMES)
    np.testing.assert_array_equal(again.labels, PREDICTIONS.labels)
    fewer = read_predictions(tmp_path / "p.jsonl", label_names=NAMES[:3])
    assert fewer.labels[0].tolist() == [3, 0, 4]
    with pytest.raises(DataError, match="is not a label id; give label_names to read label names"):
        read_predictions(tmp_path / "p.jsonl")


@pytest.mark.parametrize(
    ("name", "bad", "message"),
    [
        ("p.txt", b"1:x", "'x' is not a number"),
        ("p.txt", b"1 2", "expected label:score"),
        ("p.txt", b"-1:2", "expected label:score"),
        ("p.txt", b"1:nan", "NaN or too large for a 32-bit float"),
        ("p.txt", b"1:1e39", "NaN or too large for a 32-bit float"),
        ("p.txt", b"1:1 2:3", "scores must not increase"),
        ("p.txt", b"1:3 1:2", "predicted twice"),
        ("p.txt", b"99999999999999:3", "out of range"),
        ("p.jsonl", b'{"labels": [1]}', "field 'scores': must be a list"),
        ("p.jsonl", b'{"labels": [1], "scores": [1, 2]}', "1 labels, but 2 scores"),
        ("p.jsonl", b'{"labels": [-1], "scores": [1]}', "-1 is not a label id"),
        ("p.jsonl", b'{"labels": [true], "scores": [1]}', "true is not a label id"),
        ("p.jsonl", b'{"labels": [1], "scores": ["a"]}', "must be numbers"),
        ("p.jsonl", b'{"labels": [1], "scores": [1' + b"0" * 400 + b"]}", "too large"),
        ("p.jsonl", b'{"labels": [1', "is not a JSON object"),
        ("p.csv", b"1;0,1", "2 labels, but 1 scores"),
        ("p.csv", b"1,x", "'x' is not a number"),
        ("p.csv", b"fish,1", "is not a label id; give label_names"),
        ("p.csv", b"1;0,1;2", "scores must not increase"),
    ],
)
def test_errors_name_file_and_line(tmp_path, name, bad, message):
    good = {"p.txt": b"1:3 0:2\n", "p.jsonl": b'{"labels": [1, 0], "scores": [3, 2]}\n', "p.csv": b"labels,scores\n"}[
        name
    ]
    with pytest.raises(DataError, match=message) as caught:
        read(tmp_path, good + bad + b"\n", name)
    assert str(caught.value).startswith(f"{tmp_path / name}:2")


def test_probabilities_may_have_another_order_than_the_ranking(tmp_path, caplog):
    rows = [b'{"labels": [1, 0], "scores": [0.2, 0.1]}', b'{"labels": [0, 1], "scores": [0.2, 1]}']
    content = b"\n".join([*rows, b'{"labels": [], "scores": []}\n'])
    found = read(tmp_path, content, "p.jsonl")
    assert found.labels.tolist() == [[1, 0], [0, 1], [-1, -1]]
    assert f"{tmp_path / 'p.jsonl'}:2: a later label is more probable, as in 1 of 3 rows" in caplog.text
    with pytest.raises(DataError, match="only probabilities"):
        read(tmp_path, content.replace(b"0.1", b"-0.1"), "p.jsonl")


@pytest.mark.parametrize(
    ("labels", "scores", "message"),
    [
        ([[1, -1, 2]], [[3.0, 2.0, 1.0]], "point 0: a label follows the -1"),
        ([[1, 1]], [[3.0, 2.0]], "point 0: a label is predicted twice"),
        ([[0, 1], [0, 1]], [[3.0, 2.0], [2.0, 3.0]], "point 1: scores must not increase"),
        ([[-2]], [[3.0]], "out of range"),
        ([[1]], [[np.nan]], "NaN or too large for a 32-bit float"),
        ([[1.0]], [[3.0]], "needs whole numbers as labels"),
        ([1], [3.0], r"\(points, k\)"),
        ([[1]], [[3.0, 2.0]], r"labels have shape \(1, 1\), but scores \(1, 2\)"),
    ],
)
def test_arrays_that_are_not_predictions(tmp_path, labels, scores, message):
    np.savez(tmp_path / "p.npz", labels=np.array(labels), scores=np.array(scores))
    with pytest.raises(DataError, match=message):
        read_predictions(tmp_path / "p.npz")


def test_other_failures(tmp_path):
    for name in ("p.txt", "p.jsonl"):
        with pytest.raises(DataError, match="empty"):
            read(tmp_path, b"", name)
    with pytest.raises(DataError, match="damaged"):
        read(tmp_path, b"PK\3\4 no archive", "p.npz")
    for name, said in (("p.xlsx", r"'\.xlsx'"), ("p.parquet.gz", r"'\.parquet\.gz'")):
        with pytest.raises(DataError, match=rf"unsupported extension {said}"):
            read(tmp_path, b"", name)
        with pytest.raises(OutputError, match=rf"unsupported extension {said}"):
            write_predictions(PREDICTIONS, tmp_path / name)
    with pytest.raises(OutputError, match="infinite"):
        write_predictions(Predictions([[1]], [[np.inf]]), tmp_path / "q.txt")
    with pytest.raises(DataError, match="label 7 is predicted, but there are only 3 label names"):
        write_predictions(PREDICTIONS, tmp_path / "q.jsonl", NAMES[:3])


URIS = [f"http://example.org/{i}" for i in range(8)]
TABLE = """id,title,labels,names,scores
a,"one, two",näme 3;näme 0;näme 7,http://example.org/3;http://example.org/0;http://example.org/7,0.1;1e-09;-3.4e+38
b,,näme 2,http://example.org/2,0.6666667
c,x,,,
d,y,näme 1;näme 0,http://example.org/1;http://example.org/0,5.0;5.0
"""


def test_ids_names_and_columns_are_written_beside_the_labels(tmp_path):
    more = {"ids": list("abcd"), "label_texts": URIS, "columns": {"title": ["one, two", None, "x", "y"]}}
    for name in ("p.csv", "p.jsonl", "p.parquet"):
        write_predictions(PREDICTIONS, tmp_path / name, NAMES, **more)
        again = read_predictions(tmp_path / name, label_names=NAMES)
        np.testing.assert_array_equal(again.labels, PREDICTIONS.labels)
        np.testing.assert_array_equal(again.scores, PREDICTIONS.scores)
    assert (tmp_path / "p.csv").read_text(encoding="utf-8") == TABLE
    rows = [json.loads(line) for line in (tmp_path / "p.jsonl").read_text(encoding="utf-8").splitlines()]
    assert rows[1] == {
        "id": "b", "title": None, "labels": ["näme 2"], "names": ["http://example.org/2"], "scores": [0.6666667]
    }  # fmt: skip
    table = pa.parquet.read_table(tmp_path / "p.parquet")
    assert table.column_names == ["id", "title", "labels", "names", "scores"]
    assert table["labels"].to_pylist() == [row["labels"] for row in rows]


def test_a_stream_gets_json_lines():
    stream = io.BytesIO()
    write_predictions(PREDICTIONS[3:], stream, NAMES, ids=["d"])
    assert json.loads(stream.getvalue()) == {"id": "d", "labels": ["näme 1", "näme 0"], "scores": [5.0, 5.0]}


@pytest.mark.parametrize(
    ("name", "more", "message"),
    [
        ("p.npz", {"ids": list("abcd")}, r"\.npz files hold only label ids and scores; write \.csv"),
        ("p.txt", {"columns": {"title": list("abcd")}}, r"\.txt files hold only"),
        ("p.csv", {"ids": list("abc")}, "there are 4 points, but 3 values of 'ids'"),
        ("p.csv", {"columns": {"labels": list("abcd")}}, "the column 'labels' cannot be kept"),
        ("p.csv", {"label_texts": URIS[:3]}, "label 7 is predicted, but there are only 3 label texts"),
        ("p.csv", {"separator": "ä"}, r"the label 'näme 0' contains 'ä', .*--separator"),
        ("p.csv", {"separator": ""}, "the separator between labels is empty"),
    ],
)
def test_what_a_format_cannot_hold_is_refused_and_nothing_is_written(tmp_path, name, more, message):
    with pytest.raises((OutputError, DataError, ParameterError), match=message):
        write_predictions(PREDICTIONS, tmp_path / name, NAMES, **more)
    assert list(tmp_path.iterdir()) == []


def test_columns_are_read_as_they_are(tmp_path):
    (tmp_path / "t.csv").write_text('id,text\n007,"a ""b"""\n8,\n')
    assert read_columns(tmp_path / "t.csv", ["text", "id"]) == {"text": ['a "b"', ""], "id": ["007", "8"]}
    (tmp_path / "t.jsonl").write_text('{"id": 7, "tags": ["x"]}\n{"id": 8}\n')
    assert read_columns(tmp_path / "t.jsonl", ["tags", "id"]) == {"tags": [["x"], None], "id": [7, 8]}
    pa.parquet.write_table(pa.table({"id": [1, 2]}), tmp_path / "t.parquet")
    assert read_columns(tmp_path / "t.parquet", ["id"]) == {"id": [1, 2]}
    for name in ("t.csv", "t.jsonl", "t.parquet"):
        with pytest.raises(DataError, match=r"no column 'year'; columns are id"):
            read_columns(tmp_path / name, ["year"])
    with pytest.raises(DataError, match="has no columns"):
        read_columns(tmp_path / "t.npz", ["id"])


def test_a_member_that_is_no_array_is_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "p.npz", "w") as archive:
        archive.writestr("labels.npy", b"not an array\nat all")
        archive.writestr("scores.npy", b"neither")
    with pytest.raises(DataError, match="needs whole numbers as labels"):
        read_predictions(tmp_path / "p.npz")
