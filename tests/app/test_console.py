"""Progress where stderr is no terminal."""

from __future__ import annotations

import pytest

from longtail.app import console
from longtail.core import display


@pytest.fixture
def clock(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(display.time, "monotonic", lambda: now[0])
    return now


def test_long_work_says_in_lines_how_far_it_is(clock, capsys):
    shown = console.progress()
    shown.start("train", 1000)
    shown.advance(400)  # what a resumed run finds done
    clock[0] += 29
    shown.advance(29)
    assert capsys.readouterr().err == ""
    clock[0] += 1
    shown.note("epoch 1, loss 2.5")
    shown.advance(1)
    assert capsys.readouterr().err == "train: 430 of 1,000; epoch 1, loss 2.5\n"
    clock[0] += 30
    shown.advance(30)
    assert capsys.readouterr().err == "train: 460 of 1,000, about 9 min left; epoch 1, loss 2.5\n"
    clock[0] += 30
    shown.advance(1)
    assert capsys.readouterr().err == "train: 461 of 1,000, about 4.5 h left; epoch 1, loss 2.5\n"
    shown.finish()
    shown.start("predict", 3)
    clock[0] += 60
    shown.advance(1)
    clock[0] += 40
    shown.advance(1)
    assert capsys.readouterr().err == "predict: 1 of 3\npredict: 2 of 3, about 40 s left\n"
