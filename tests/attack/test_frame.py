"""The frame of attacks: what it tries, what it reports, and that a trial can be repeated."""

from __future__ import annotations

import sys
import time

import pytest

from attack import frame


@pytest.fixture(autouse=True)
def _own_registry(monkeypatch):
    monkeypatch.setattr(frame, "ATTACKS", {})


def test_findings_are_reported_with_their_folder_and_can_be_repeated(tmp_path):
    @frame.attack("toys/dice")
    def dice(rng, folder):
        (folder / "tried").write_text("a file")
        number = int(rng.integers(6))
        if number == 5:
            raise frame.Finding(f"rolled {number}")

    report = frame.run(frame.chosen("toys"), trials=50, seed=3, folder=tmp_path)
    assert report.trials == {"toys/dice": 50}
    assert report.findings
    assert sorted(tmp_path.iterdir()) == sorted(found.folder for found in report.findings)
    first = report.findings[0]
    assert (first.what, (first.folder / "tried").read_text()) == ("rolled 5", "a file")
    again = frame.run(["toys/dice"], trials=1, seed=3, first=first.trial, folder=tmp_path)
    assert [found.what for found in again.findings] == ["rolled 5"]
    assert f"50 trials  {len(report.findings):3} findings" in report.lines()[0]
    assert f"--only toys/dice --seed 3 --first {first.trial} --trials 1" in report.lines()[1]


def test_an_error_that_no_attack_expects_is_a_finding(tmp_path):
    @frame.attack("toys/broken")
    def broken(rng, folder):
        raise ZeroDivisionError("nobody expected this")

    report = frame.run(["toys/broken"], trials=1, folder=tmp_path)
    assert "nobody expected this" in report.findings[0].what


def test_minutes_end_a_run_and_are_shared():
    for name in ("a/one", "a/two", "b/three"):
        frame.attack(name)(lambda rng, folder: None)
    assert frame.chosen("a") == ["a/one", "a/two"]
    assert frame.chosen("b/three") == ["b/three"]
    report = frame.run(frame.chosen(), minutes=0.002)
    assert min(report.trials.values()) > 0
    assert report.findings == []


def test_every_attack_has_a_trial_within_its_share_of_the_time():
    tried = []

    def lazy(name):
        def attack(rng, folder):
            time.sleep(frame.seconds_allowed())  # all that it may take
            tried.append(name)

        return attack

    names = [f"a/{i}" for i in range(5)]
    for name in names:
        frame.attack(name)(lazy(name))
    report = frame.run(names, minutes=0.01, seed=7)
    assert tried == names[2:] + names[:2]  # the seed decides which one begins
    assert report.lines()[0] == "began with a/2 (seed 7)"


def test_a_machine_that_stands_still_is_not_a_hang(monkeypatch):
    clock = iter([0.0, 0.5, 1.0, 901.0, 901.5])
    monkeypatch.setattr(frame.time, "monotonic", lambda: next(clock))
    waited = frame.Waited()
    assert [waited() for _ in range(4)] == [0.5, 1.0, 2.5, 3.0]


def test_a_group_that_is_left_out_says_why(monkeypatch, capsys):
    from scripts import attack

    monkeypatch.setattr(frame, "load_attacks", lambda: None)
    monkeypatch.setattr(frame, "LEFT_OUT", {"odd": "needs another package"})
    frame.attack("toys/none")(lambda rng, folder: None)
    monkeypatch.setattr(sys, "argv", ["attack", "--trials", "1", "--only", "odd/one"])
    with pytest.raises(SystemExit) as end:
        attack.main()
    assert end.value.code == 2
    assert "odd needs another package" in capsys.readouterr().err
    monkeypatch.setattr(sys, "argv", ["attack", "--trials", "1"])
    assert attack.main() == 0
    assert capsys.readouterr().err == "left out: odd (needs another package)\n"
