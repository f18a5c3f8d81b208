"""Which words spoke for a label."""

from __future__ import annotations

import json
import sys

import pytest

from contract.planted import N_LABELS, WORDS_PER_LABEL, word
from longtail.app.cli import main
from longtail.errors import ParameterError
from neural.text.text_models import TEST, TRAIN, aplc, attention, xgrank


@pytest.mark.parametrize("make", [xgrank, aplc, attention])
def test_the_words_of_a_label_have_the_largest_weight(make):
    model = make().fit(TRAIN.texts, TRAIN.Y, label_names=[f"label {i}" for i in range(N_LABELS)])
    right = 0
    for label in range(N_LABELS):
        other = (label + 3) % N_LABELS
        own = [word(WORDS_PER_LABEL * label + j) for j in range(WORDS_PER_LABEL)]
        text = " ".join([*own, *(word(WORDS_PER_LABEL * other + j) for j in range(WORDS_PER_LABEL))])
        found = model.explain(text, f"label {label}")
        assert found.label == label
        assert sum(abs(token.weight) for token in found.tokens) == pytest.approx(1, abs=1e-5)
        assert [text[token.start : token.end] for token in found.tokens] == text.split()
        best = max(found.tokens, key=lambda token: token.weight)
        right += best.token in own
    assert right >= N_LABELS - 1


def test_explain_refuses_labels_that_do_not_exist():
    model = attention(epochs=1).fit(TRAIN.texts, TRAIN.Y)
    for label, message in ((N_LABELS, "has 6 labels"), (-1, "label"), ("x", "no label names")):
        with pytest.raises(ParameterError, match=message):
            model.explain("w00", label)


def test_explain_on_the_command_line(tmp_path, monkeypatch, capsys):
    names = [f"label {i}" for i in range(N_LABELS)]
    attention().fit(TRAIN.texts, TRAIN.Y, label_names=names).save(tmp_path / "m")

    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["longtail", "explain", str(tmp_path / "m"), *arguments])
        with pytest.raises(SystemExit) as stop:
            main()
        captured = capsys.readouterr()
        return int(stop.value.code or 0), captured.out, captured.err

    code, out, _ = run("w06 w07 w08 w20", "--json")
    assert code == 0
    assert json.loads(out)["label"] == "label 2"
    code, out, _ = run("w06 w00", "--label", "label 0")
    assert code == 0
    assert "label 0: score" in out
    code, _, err = run("w06", "--label", "labl 0")
    assert code == 2
    assert 'did you mean "label 0"?' in err


@pytest.mark.parametrize("length", ["a", 1.5, 0])
def test_explain_checks_parameters_first(length):
    model = xgrank(epochs=1).fit(TRAIN.texts, TRAIN.Y).set_params(length=length)
    with pytest.raises(ParameterError, match="length is"):
        model.explain(TEST.texts[0], 0)
