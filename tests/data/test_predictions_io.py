from __future__ import annotations

import numpy as np
import pytest

from longtail.core.predictions import Predictions
from longtail.data import read_predictions, write_predictions
from longtail.errors import DataError, OutputError

PREDICTIONS = Predictions(
    np.array([[3, 0, 7], [2, -1, -1], [-1, -1, -1], [1, 0, -1]]),
    np.array([[0.1, 1e-9, -3.4e38], [2 / 3, -np.inf, -np.inf], [-np.inf] * 3, [5, 5, -np.inf]], np.float32),
)
NAMES = [f"näme {i}" for i in range(8)]


def read(folder, content: bytes, name: str, **options) -> Predictions:
    (folder / name).write_bytes(content)
    return read_predictions(folder / name, **options)


@pytest.mark.parametrize("name", ["p.npz", "p.jsonl", "p.txt", "p.jsonl.gz", "p.txt.zst"])
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
    ],
)
def test_errors_name_file_and_line(tmp_path, name, bad, message):
    good = {"p.txt": b"1:3 0:2\n", "p.jsonl": b'{"labels": [1, 0], "scores": [3, 2]}\n'}[name]
    with pytest.raises(DataError, match=message) as caught:
        read(tmp_path, good + bad + b"\n", name)
    assert str(caught.value).startswith(f"{tmp_path / name}:2")


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
    with pytest.raises(DataError, match=r"unsupported extension '\.csv'"):
        read(tmp_path, b"", "p.csv")
    with pytest.raises(OutputError, match=r"unsupported extension '\.csv'"):
        write_predictions(PREDICTIONS, tmp_path / "q.csv")
    with pytest.raises(OutputError, match="infinite"):
        write_predictions(Predictions([[1]], [[np.inf]]), tmp_path / "q.txt")
    with pytest.raises(DataError, match="label 7 is predicted, but there are only 3 label names"):
        write_predictions(PREDICTIONS, tmp_path / "q.jsonl", NAMES[:3])
