"""Fixtures that several rooms share."""

from __future__ import annotations

import json
import sys

import pytest

from contract.planted import planted
from longtail.app.cli import main
from longtail.data import Dataset, write_dataset


@pytest.fixture
def cli(monkeypatch, capsys):
    """Run `longtail ...` in this process: (exit code, stdout, stderr)."""

    def run(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["longtail", *map(str, arguments)])
        with pytest.raises(SystemExit) as stop:
            main()
        captured = capsys.readouterr()
        return int(stop.value.code or 0), captured.out, captured.err

    return run


@pytest.fixture
def xc(tmp_path):
    """train.txt and test.txt with features."""
    for name, seed in (("train", 0), ("test", 1)):
        data = planted(80, seed)
        write_dataset(Dataset(Y=data.Y, X=data.X), tmp_path / f"{name}.txt")
    return tmp_path


@pytest.fixture
def texts(tmp_path):
    """train.jsonl and test.jsonl with texts and label names; the test set has a label that training lacks."""
    for name, seed, extra in (("train", 0, []), ("test", 1, ["aaa unknown"])):
        data = planted(80, seed)
        with open(tmp_path / f"{name}.jsonl", "w") as file:
            for text, labels in zip(data.texts, data.lists, strict=True):
                file.write(json.dumps({"text": text, "labels": [f"name {i}" for i in labels] + extra}) + "\n")
    return tmp_path
