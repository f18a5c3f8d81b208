"""Commands that read data larger than memory: what they read goes to files, in the folder that the user expects."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from longtail import DiSMEC, TextPipeline, load_model
from longtail.app.cli import main
from longtail.core import workspace
from longtail.data import make_longtail, read_dataset, write_dataset


@pytest.fixture
def folders(monkeypatch):
    """Return the list of folders in which files without names were made; every array is large enough for one."""
    made: list[Path] = []

    class Recorded(workspace._File):
        def __init__(self, folder, dtype):
            made.append(folder)
            super().__init__(folder, dtype)

    monkeypatch.setattr(workspace, "_HELD", 64)
    monkeypatch.setattr(workspace, "_File", Recorded)
    return made


def command(monkeypatch, *arguments):
    monkeypatch.setattr(sys, "argv", ["longtail", *map(str, arguments)])
    with pytest.raises(SystemExit) as stop:
        main()
    assert not stop.value.code


def test_convert_reads_into_files_beside_its_target(tmp_path, monkeypatch, folders):
    made = make_longtail(n_points=120, n_features=60, n_labels=12, kind="text").train
    write_dataset(made, tmp_path / "data.jsonl")
    (tmp_path / "out").mkdir()
    command(monkeypatch, "convert", tmp_path / "data.jsonl", tmp_path / "out" / "data")
    assert set(folders) == {tmp_path / "out"}
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["data"]
    found, wanted = read_dataset(tmp_path / "out" / "data"), read_dataset(tmp_path / "data.jsonl")
    assert found.texts == wanted.texts
    assert found.label_names == wanted.label_names
    assert (found.Y != wanted.Y).nnz == 0


def test_train_reads_into_its_workspace(tmp_path, monkeypatch, folders):
    made = make_longtail(n_points=120, n_features=60, n_labels=12, kind="text").train
    write_dataset(made, tmp_path / "data.jsonl")
    (tmp_path / "work").mkdir()
    command(
        monkeypatch, "train", tmp_path / "data.jsonl", "--model", "dismec", "--out", tmp_path / "m",
        "--workspace", tmp_path / "work", "--calibrate", "no",
    )  # fmt: skip
    assert set(folders) == {tmp_path / "work"}
    assert list((tmp_path / "work").iterdir()) == []
    data = read_dataset(tmp_path / "data.jsonl")
    wanted = TextPipeline(model=DiSMEC()).fit(data.texts, data.Y).predict(data.texts)
    assert load_model(tmp_path / "m").predict(data.texts).scores.tobytes() == wanted.scores.tobytes()
