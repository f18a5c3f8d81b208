"""The demo: its table, and a sentence that follows the numbers."""

from __future__ import annotations

import subprocess
import sys

import pytest

from contract.planted import planted
from longtail.app.demo import verdict
from longtail.data import Dataset, write_dataset


@pytest.mark.parametrize(
    ("weighted", "said"),
    [
        (30.0, "The tail gained 10.0 points (recall of tail labels in the top 5: 20.0 % without weighting, 30.0 %"),
        (20.01, "The tail gained nothing"),
        (15.0, "The tail lost 5.0 points"),
    ],
)
def test_the_sentence_follows_the_numbers(weighted, said):
    plain = {"P@5": 50.0, "tail R@5": 20.0}
    sentence = verdict(plain, {"P@5": 48.5, "tail R@5": weighted}, {"P@5": 40.0, "tail R@5": 1.0})
    assert sentence.startswith(said)
    assert "P@5 changes by -1.5 points" in sentence


@pytest.mark.parametrize("kind", ["text", "features"])
def test_the_demo_runs_on_ones_own_data(tmp_path, kind):
    data = planted(100)
    if kind == "text":
        write_dataset(Dataset(Y=data.Y, texts=data.texts), tmp_path / "mine.jsonl")
    else:
        write_dataset(Dataset(Y=data.Y, X=data.X), tmp_path / "mine.txt")
    command = [sys.executable, "-m", "longtail.app.cli", "demo", "--data", next(tmp_path.iterdir())]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for name in (
        "popularity",
        "dismec",
        "dismec, pw",
        "dismec, pw-cb",
        "PSP@5",
        "macro-F1@5",
        "coverage@5",
        "tail R@5",
        "The tail ",
        "auto ",
        "\nchose ",
    ):
        assert name in done.stdout
