"""A few trials of the attacks on files, command lines, kills, disks and concurrent readers."""

from __future__ import annotations

import pytest

from attack import frame

frame.load_attacks()
FEW = {"files": 1, "commands": 1, "kills": 1, "disks": 2, "loads": 1}
QUICK_KILLS = ("kills/dismec", "kills/popularity")


@pytest.mark.parametrize("group", FEW)
def test_it_holds(group, tmp_path):
    names = [name for name in frame.chosen(group) if group != "kills" or name in QUICK_KILLS]
    assert names
    report = frame.run(names, trials=FEW[group], folder=tmp_path)
    assert not report.findings, "\n".join(report.lines())
