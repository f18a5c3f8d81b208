"""longtail tune, with the real Optuna on small data."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import tomllib

import numpy as np
import pytest

import longtail
from contract.planted import planted
from longtail.app.cli import main
from longtail.bench.run import run_recipe
from longtail.bench.study import read_file
from longtail.core.model import load_model
from longtail.data import Dataset, read_dataset, write_dataset
from longtail.errors import EngineError
from longtail.tune.study import FORMAT


def journal(path):
    """What trials of a study drew and reached: nothing that differs between two runs of the same search."""
    import optuna
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend

    study = optuna.load_study(study_name="longtail tune", storage=JournalStorage(JournalFileBackend(str(path))))
    return [
        (t.number, t.state.name, t.params, t.values, t.user_attrs.get("outcome", {}).get("curve")) for t in study.trials
    ]


def test_a_search_ends_with_a_front_a_recipe_and_a_model(cli, xc):
    files = {name: xc / f"s.{name}" for name in ("study", "toml", "svg", "model")}
    code, out, err = cli(
        "tune", xc / "train.txt", "--model", "dismec,bonsai", "--trials", 4, "--study", files["study"],
        "--pick", "price", "--out", files["model"], "--picture", files["svg"], "--recipes", xc / "all.toml",
        "--fix", "bias=0.3",
    )  # fmt: skip
    assert code == 0, err
    assert "training on 64 points; 16 held out at random to score on, seed 0" in err
    assert "trial 0: dismec defaults" in err
    assert "trial 1: bonsai defaults" in err
    assert "pick" in out
    assert files["svg"].read_text().startswith("<?xml")
    trials = journal(files["study"])
    assert [t[1] for t in trials] == ["COMPLETE"] * 4
    assert trials[0][2]["dismec.C"] == 1.0
    assert "dismec.bias" not in trials[0][2]
    # The recipes are those of bench; the model is the one of the recipe, trained on all points.
    (recipe,) = read_file(files["toml"])
    assert (recipe.held_out, recipe.split_seed) == (0.2, 0)
    assert [r.name for r in read_file(xc / "all.toml")] == [f"trial-{i:03d}" for i in range(4)]
    model = load_model(files["model"])
    assert model.n_points_ == 80
    chosen = tomllib.loads(files["toml"].read_text())["model"]
    assert type(model).__name__.lower() in (chosen["name"], "unitrows")
    predicted = model.predict(read_dataset(xc / "test.txt").X, k=1)
    assert np.mean(planted(80, 1).Y[np.arange(80), predicted.labels[:, 0]]) > 0.5


def test_a_killed_search_ends_with_the_same_trials(cli, xc, tmp_path):
    # Two models and more trials than are drawn at random, so that TPE and its groups of parameters have their say.
    options = ["--model", "dismec,parabel", "--trials", 11, "--seed", 3, "--fix", "beam=10"]
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    assert cli("tune", xc / "train.txt", *options, "--study", whole)[0] == 0
    command = [sys.executable, "-m", "longtail.app.cli", "tune", xc / "train.txt", *options, "--study", killed]
    process = subprocess.Popen(list(map(str, command)), stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 300
    while not killed.exists() or killed.read_text().count('"model"') < 3:
        assert process.poll() is None, "the search ended before it could be killed"
        assert time.monotonic() < deadline
        time.sleep(0.005)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    with open(killed, "a") as file:
        file.write('{"op_code":5,"half a line')  # as a full disk leaves it
    done = len([t for t in journal(killed) if t[1] == "COMPLETE"])
    assert done < 11
    assert cli("tune", xc / "train.txt", *options, "--study", killed)[0] == 2  # not without --resume
    code, _, err = cli("tune", xc / "train.txt", *options, "--study", killed, "--resume")
    assert code == 0, err
    assert journal(killed) == journal(whole)
    assert [p.name for p in tmp_path.iterdir() if p.name.startswith(".")] == []


def test_a_cluster_that_fails_ends_the_search_and_fails_no_trial(cli, xc, monkeypatch):
    study = ("tune", xc / "train.txt", "--model", "dismec", "--trials", 3, "--study")
    assert cli(*study, xc / "whole.log")[0] == 0

    def failing(*arguments, engine, **options):
        raise EngineError("the Ray node of this machine ended")

    with monkeypatch.context() as patched:
        patched.setattr("longtail.tune.search.fit", failing)
        code, _, err = cli(*study, xc / "s.log")
    assert (code, "the Ray node of this machine ended" in err, "default parameters" in err) == (2, True, False)
    assert cli(*study, xc / "s.log", "--resume")[0] == 0
    assert journal(xc / "s.log") == journal(xc / "whole.log")


def test_one_objective_with_folds_and_a_limit(cli, texts):
    study = texts / "s.study"
    code, _, err = cli(
        "tune", texts / "train.jsonl", "--model", "propensityrerank/dismec", "--trials", 3, "--objectives", "psp@3",
        "--folds", 2, "--fix", "features.min_df=1", "--max-size", 0.001, "--fix", "folds=2", "--study", study,
    )  # fmt: skip
    assert code == 2
    assert "2 folds of 80 points" in err
    assert "none of 3 trials is within the limits (the last: " in err
    assert re.search(r"[0-9.]+ MB > --max-size 0.001\)", err)
    assert all(t[3][0] > 10 for t in journal(study))


def test_a_threshold_is_swept_and_goes_into_recipe_and_model(cli, tmp_path):
    data = longtail.make_longtail(n_points=600, n_features=300, n_labels=40, n_test_points=400)
    for name, part in (("train", data.train), ("test", data.test)):
        write_dataset(part, tmp_path / f"{name}.txt")
    files = {name: tmp_path / f"s.{name}" for name in ("study", "toml", "model")}
    code, out, err = cli(
        "tune", tmp_path / "train.txt", "--model", "dismec", "--trials", 2, "--study", files["study"], "--objectives",
        "MICRO-f1,macro-R", "--pick", "micro-F1", "--out", files["model"], "--folds", 2, "--recipes",
        tmp_path / "all.toml",
    )  # fmt: skip
    assert code == 0, err
    recipe = tomllib.loads(files["toml"].read_text())
    threshold = recipe["evaluate"]["threshold"]
    assert "threshold=" in out
    assert f"--probabilities --threshold {threshold:g}" in err
    curve = next(t[4] for t in journal(files["study"]) if t[0] == 0)
    by_threshold = {point["threshold"]: point["metrics"] for point in curve}
    assert len(by_threshold) == len(curve) > 40
    recalls = [by_threshold[t]["macro-R"] for t in sorted(by_threshold)]
    assert recalls == sorted(recalls, reverse=True)
    assert recalls[0] > recalls[-1] + 30
    assert all(point["metrics"].keys() == {"micro-F1", "macro-R"} for point in curve)
    # The model has probabilities, and its sets on other points are about as good as the search said.
    found = load_model(files["model"]).predict_sets(data.test.X, threshold=threshold)
    said = max(found["micro-F1"] for found in by_threshold.values())
    assert abs(longtail.metrics.evaluate_sets(found, data.test.Y)["micro-F1"] - said) < 5
    # Bench scores the same sets.
    files["toml"].write_text(files["toml"].read_text().replace("held_out = 0.5", 'test = "test.txt"'))
    (read,) = read_file(files["toml"])
    sets = run_recipe(read, tmp_path, tmp_path / "cache")["sets"]
    assert sets["threshold"] == threshold
    assert abs(sets["micro-F1"] - said) < 5
    assert all(0 < r.threshold < 1 for r in read_file(tmp_path / "all.toml"))


BAD = {
    "metric": (["--objectives", "P@1,Q@2"], "unknown metric 'Q@2'"),
    "metric of sets": (["--objectives", "micro-F2"], "of label sets: micro-P, micro-R, micro-F1,"),
    "model": (["--model", "dismek"], 'unknown model "dismek"'),
    "no space": (["--model", "popularity"], "there is no search space for popularity"),
    "budget": (["--minutes", "2"], "--trials and --minutes contradict each other"),
    "price": (["--objectives", "P@1", "--price", "1"], "there is no other"),
    "limits": (["--max-size", "0"], "--max-size is 0, but must be above 0"),
    "folds": (["--folds", "3", "--dev", "0.1"], "--folds and --dev contradict each other"),
    "dev": (["--dev", "2"], "--dev is 2.0, but must be a share"),
    "fix": (["--fix", "D=3"], 'unknown parameter "D"'),
    "value": (["--fix", "C=-3"], "C is -3"),
    "pick": (["--pick", "P@9"], "--pick P@9 cannot be used"),
    "out": (["--out", "m"], "--out needs --pick"),
    "other search": (["--seed", "5"], "the study has another --seed (0, not 5)"),
    "other model": (["--model", "parabel"], "the study has another --model (dismec, not parabel)"),
}


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A finished study, made once."""
    folder = tmp_path_factory.mktemp("tune")
    data = planted(80, 0)
    write_dataset(Dataset(Y=data.Y, X=data.X), folder / "train.txt")
    command = ["tune", folder / "train.txt", "--model", "dismec", "--trials", 2, "--study", folder / "study"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["longtail", *map(str, command)])
        with pytest.raises(SystemExit) as stop:
            main()
    assert not stop.value.code
    return folder


@pytest.mark.parametrize(("options", "message"), BAD.values(), ids=BAD)
def test_bad_input_is_one_line_and_leaves_the_study_alone(cli, finished, options, message):
    before = (finished / "study").read_bytes()
    given = {"--model": "dismec", "--trials": "2"} | dict(zip(options[::2], options[1::2], strict=True))
    arguments = [part for pair in given.items() for part in pair]
    code, _, err = cli("tune", finished / "train.txt", "--study", finished / "study", "--resume", *arguments)
    assert code == 2
    assert message in err
    assert (finished / "study").read_bytes() == before


def test_a_fit_may_not_take_longer_than_the_search(cli, finished):
    before = (finished / "study").read_bytes()
    options = ["--model", "dismec", "--minutes", 2, "--max-seconds", 121, "--study", finished / "study", "--resume"]
    code, _, err = cli("tune", finished / "train.txt", *options)
    assert (code, (finished / "study").read_bytes()) == (2, before)
    assert "--max-seconds 121 and --minutes 2 contradict each other" in err


def test_studies_of_other_data_or_versions_are_refused(cli, finished, tmp_path):
    other = planted(80, 1)
    write_dataset(Dataset(Y=other.Y, X=other.X), tmp_path / "other.txt")
    options = ["--model", "dismec", "--trials", 2, "--resume"]
    before = (finished / "study").read_bytes()
    code, _, err = cli("tune", tmp_path / "other.txt", "--study", finished / "study", *options)
    assert (code, (finished / "study").read_bytes()) == (2, before)
    assert "the study has another dataset" in err
    for old, new, message in (
        (f'"format":{FORMAT}', '"format":0', f"another format (0, not {FORMAT})"),
        (f'"longtail":"{longtail.__version__}"', '"longtail":"0"', "another version of longtail (0, not"),
        ('{"op', "x", "was not written"),
    ):
        study = tmp_path / "altered"
        study.write_bytes(before.replace(old.encode(), new.encode()))
        altered = study.read_bytes()
        code, _, err = cli("tune", finished / "train.txt", "--study", study, *options)
        assert (code, study.read_bytes()) == (2, altered)
        assert message in err


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([["a", "b"]], "has one point"),
        ([["a"]] * 8, "has only one label"),
        ([[]] * 8, "has no label"),
        ([["a", "b"]] * 40 + [["rare"]], "the held-out points have no label of the tail"),
        ([[f"label {i}"] for i in range(40)], "no label of a held-out point is also that of a training point"),
        # Row 2 is held out: no training point has its label.
        ([["rare"], ["a"], ["lost"], *[["a", "b"]] * 39], "the held-out points have no label of the tail"),
    ],
)
def test_data_that_cannot_be_searched_is_refused(cli, tmp_path, rows, message):
    file = tmp_path / "data.jsonl"
    file.write_text("".join(json.dumps({"text": "some words here", "labels": row}) + "\n" for row in rows))
    code, _, err = cli("tune", file, "--model", "dismec", "--trials", 2, "--study", tmp_path / "study")
    assert code == 2
    assert message in err
    assert not (tmp_path / "study").exists()
