"""Predictions of every model, and what the command line answers, as they were when they were last looked at."""

from __future__ import annotations

import json
import re
import shlex
import sys

import numpy as np
import pytest

from contract.planted import planted
from golden.cases import COMMANDS, HERE, MODELS, RECORDING, write_command_line_data
from longtail.app.cli import main

PREDICTIONS = HERE / "predictions.json"
ANSWERS = HERE / "command-line.txt"
# Last digits depend on the processor, those of networks more than others.
NETWORKS = ("glas", "attentionxml", "aplcxlnet", "xgrank", "ranknet")


def test_predictions_are_those_on_record():
    train, test = planted(90), planted(12, seed=5)
    found = {}
    for name, make in MODELS.items():
        model = make()
        best = model.fit(train.inputs(model.input_kind), train.Y).predict(test.inputs(model.input_kind), k=5)
        scores = [[float(f"{score:.5g}") for score in row] for row in best.scores]
        found[name] = {"labels": best.labels.tolist(), "scores": scores}
    if RECORDING:
        lines = [f"{json.dumps(name)}: {json.dumps(value)}" for name, value in found.items()]
        PREDICTIONS.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    recorded = json.loads(PREDICTIONS.read_text())
    assert sorted(found) == sorted(recorded), "record the golden file again: a model was added or removed"
    for name, value in found.items():
        tolerance = 2e-2 if name.startswith(NETWORKS) else 1e-3
        scores, expected = np.array(value["scores"]), np.array(recorded[name]["scores"])
        np.testing.assert_allclose(scores, expected, rtol=tolerance, atol=tolerance, err_msg=name)
        differ = np.array(value["labels"]) != np.array(recorded[name]["labels"])
        # Where labels differ, their scores were all but equal, and rounding decided.
        ties = np.isclose(scores[:, 1:], scores[:, :-1], rtol=tolerance, atol=tolerance)
        tied = np.pad(ties, ((0, 0), (1, 0))) | np.pad(ties, ((0, 0), (0, 1)))
        tied[:, -1] = True  # the next one, which is not on record, may be as good
        assert not (differ & ~tied).any(), f"{name}: other labels than on record"


def test_the_command_line_answers_as_on_record(tmp_path, monkeypatch, capsys):
    write_command_line_data(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("LONGTAIL_DATA", "nowhere")
    answers = []
    for command in COMMANDS.strip().splitlines():
        monkeypatch.setattr(sys, "argv", ["longtail", *shlex.split(command)])
        with pytest.raises(SystemExit) as stop:
            main()
        captured = capsys.readouterr()
        answers.append(f"$ longtail {command}\n{plain(captured.out)}{plain(captured.err)}exit {stop.value.code or 0}\n")
    found = "\n".join(answers)
    if RECORDING:
        ANSWERS.write_text(found)
    assert found == ANSWERS.read_text()


def plain(text: str) -> str:
    """What is printed, less what differs from run to run: seconds, sizes, versions, digits behind the comma."""
    text = re.sub(r"\x1b\[[0-9;]*m", "", text)
    text = re.sub(r"(Usage: |Try ').*?longtail", r"\1longtail", text)  # however the tests were started
    text = re.sub(r"in \d+\.\d s; wrote (\S+) \(\d+\.\d MB\)", r"in _ s; wrote \1 (_ MB)", text)
    text = re.sub(r"(python|longtail|numpy|scipy|scikit-learn|numba|torch) = [\w.+]+", r"\1 = _", text)
    text = re.sub(r"^│ (size|versions|data fingerprint|trained) .*\n", "", text, flags=re.MULTILINE)
    text = re.sub(r"^0\.1\.0\n", "VERSION\n", text)
    text = re.sub(r"(\d+\.\d\d)\d+", r"\1", text)
    return re.sub(r"[ \t]+$", "", text, flags=re.MULTILINE)
