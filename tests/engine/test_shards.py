"""Shards of a training: each trains its share, together they are the model that one training makes."""

from __future__ import annotations

import shutil
import sys

import pytest

from engine.small import assert_same, small
from longtail import Bonsai, DiSMEC, PropensityRerank, load_model
from longtail.app.cli import main
from longtail.core.checkpoint import Checkpoint
from longtail.core.run import Run
from longtail.data import Dataset, write_dataset
from longtail.engine.shards import PartsKept, Shards
from longtail.errors import ParameterError

X, Y = small()


@pytest.mark.parametrize(
    "make",
    [
        lambda: DiSMEC(),
        lambda: Bonsai(n_children=3, max_leaf=3, n_trees=2),
        lambda: PropensityRerank(base=Bonsai(n_children=3, max_leaf=3, n_trees=1), folds=2),
    ],
    ids=["DiSMEC", "Bonsai", "PropensityRerank"],
)
def test_shards_together_are_the_model_of_one_training(make, tmp_path):
    folders, shares = [], []
    for number in (1, 2, 3):
        engine = Shards(number, 3)
        folders.append(tmp_path / f"shard-{number}")
        with pytest.raises(PartsKept):
            make().fit(X, Y, run=Run(checkpoint=Checkpoint(folders[-1], resume=False), engine=engine))
        shares.append(engine.n_own)
    assert sum(shares) == engine.n_parts
    n_files = [sorted(file.relative_to(folder) for file in folder.rglob("*.safetensors")) for folder in folders]
    assert not set(n_files[0]) & set(n_files[1])

    merged = make().fit(X, Y, run=Run(checkpoint=Checkpoint(tmp_path / "all", resume=False, sources=folders)))
    assert_same(merged, make().fit(X, Y))


def test_a_merge_trains_no_part_again(tmp_path, monkeypatch):
    folders = [tmp_path / "1", tmp_path / "2"]
    for number, folder in enumerate(folders, 1):
        with pytest.raises(PartsKept):
            DiSMEC().fit(X, Y, run=Run(checkpoint=Checkpoint(folder, resume=False), engine=Shards(number, 2)))
    monkeypatch.setattr("longtail.linear.solver.BlockSolver.train", lambda *_, **__: pytest.fail("trained again"))
    DiSMEC().fit(X, Y, run=Run(checkpoint=Checkpoint(tmp_path / "all", resume=False, sources=folders)))


def test_a_shard_needs_a_checkpoint():
    with pytest.raises(ParameterError, match="keeps its parts in a checkpoint"):
        DiSMEC().fit(X, Y, run=Run(engine=Shards(1, 2)))


@pytest.fixture
def command(tmp_path, monkeypatch, capsys):
    """Run `longtail train` on the planted data; return the exit code and what it said."""
    monkeypatch.chdir(tmp_path)
    write_dataset(Dataset(Y, X=X), tmp_path / "data")

    def train(*arguments):
        monkeypatch.setattr(sys, "argv", ["longtail", "train", "data", "--out", "m", *arguments])
        with pytest.raises(SystemExit) as stop:
            main()
        return stop.value.code or 0, " ".join(capsys.readouterr().err.split())

    return train


def test_the_command_line_trains_shards_and_puts_them_together(command, tmp_path):
    for number in (1, 2):
        code, said = command("--model", "dismec", "--shard", f"{number}/2")
        assert code == 0
        assert f"trained shard {number} of 2" in said
        assert not (tmp_path / "m").exists()
    code, said = command("--model", "dismec", "--merge")
    assert (code, sorted(path.name for path in tmp_path.iterdir())) == (0, ["data", "m"])
    assert_same(load_model(tmp_path / "m"), DiSMEC().fit(X, Y))


def test_missing_foreign_unfinished_and_mixed_shards_are_named(command, tmp_path):
    model = ("--model", "dismec")
    assert "there are no shards of m" in command(*model, "--merge")[1]
    command(*model, "--shard", "2/3")
    code, said = command(*model, "--merge")
    assert (code, "missing shards of 3: 1, 3" in said) == (2, True)
    command(*model, "--shard", "1/3")
    command(*model, "--shard", "3/3", "--set", "C=2")
    code, said = command(*model, "--merge")
    assert (code, "m.shard-3-of-3 belongs to another training" in said) == (2, True)
    (tmp_path / "m.shard-1-of-3" / "job.json").unlink()
    code, said = command(*model, "--merge")
    assert (code, "m.shard-1-of-3 does not say whose its parts are: job.json is missing" in said) == (2, True)
    (tmp_path / "m.shard-2-of-3" / "finished.json").unlink()
    assert "unfinished shards of 3: 2" in command(*model, "--merge")[1]
    shutil.copytree(tmp_path / "m.shard-1-of-3", tmp_path / "m.shard-1-of-4")
    assert "shards of m of 3 (1, 2, 3) and of 4 (1)" in command(*model, "--merge")[1]
    assert not (tmp_path / "m").exists()
    assert not (tmp_path / "m.partial").exists()


def test_shards_under_the_name_of_another_are_named(command, tmp_path):
    model = ("--model", "dismec")
    for number in (1, 2):
        command(*model, "--shard", f"{number}/2")
    shutil.rmtree(tmp_path / "m.shard-2-of-2")
    shutil.copytree(tmp_path / "m.shard-1-of-2", tmp_path / "m.shard-2-of-2")
    code, said = command(*model, "--merge")
    assert (code, "m.shard-2-of-2 is shard 1 of 2 by its content" in said) == (2, True)
    (tmp_path / "m.shard-2-of-2" / "finished.json").write_text('{"shard": 2,')  # a kill meanwhile
    assert "unfinished shards of 2: 2" in command(*model, "--merge")[1]
    assert not (tmp_path / "m").exists()


def test_a_merge_says_which_shards_have_lost_parts(command, tmp_path):
    model = ("--model", "ranknet", "--base", "dismec", "--set", "epochs=1", "--set", "folds=2")
    for number in (1, 2):
        command(*model, "--shard", f"{number}/2")
    next((tmp_path / "m.shard-2-of-2").rglob("*.safetensors")).unlink()
    code, said = command(*model, "--merge")
    assert (code, "m.shard-1-of-2 has lost" in said) == (0, False)
    assert "m.shard-2-of-2 has lost 1 of its" in said
    for number in (1, 2):
        command(*model, "--overwrite", "--shard", f"{number}/2")
    code, said = command(*model, "--overwrite", "--merge")
    assert (code, "has lost" in said) == (0, False)


def test_a_name_that_speaks_of_a_billion_shards_costs_nothing(command, tmp_path):
    (tmp_path / "m.shard-2-of-999999999").mkdir()
    (tmp_path / "m.shard-0-of-0").mkdir()  # no shard at all
    code, said = command("--model", "dismec", "--merge")
    assert code == 2
    assert "missing shards of 999999999: 1, 3, 4, 5, 6, 7, 8, 9, 10, 11 and 999,999,988 more;" in said


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--model", "dismec", "--shard", "0/4"), "there is no shard 0 of 4"),
        (("--model", "dismec", "--shard", "5"), "must be NUMBER/COUNT"),
        (("--model", "dismec", "--shard", "1/4", "--merge"), "--shard and --merge exclude each other"),
        (("--model", "popularity", "--shard", "1/4"), "Popularity is not one"),
        (("--shard", "1/4"), "AutoModel is not one"),
    ],
)
def test_what_shards_cannot_do_is_said_before_any_work(command, arguments, said):
    code, answer = command(*arguments)
    assert code == 2
    assert said in answer
