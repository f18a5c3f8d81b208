"""A few trials of the attacks on files, command lines, kills, disks, concurrent readers, memory and the service."""

from __future__ import annotations

import pytest

from attack import files, frame
from attack.seeds import SEEDS, files_of, read_seed

frame.load_attacks()
FEW = {"files": 1, "commands": 1, "kills": 1, "disks": 2, "loads": 1, "bombs": 1, "service": 1}
# Of groups with slow attacks, those that take a second.
QUICK = {
    "kills": ("kills/dismec", "kills/popularity"),
    "bombs": (
        "bombs/a.txt.zst: empty lines", "bombs/a.json.gz: objects", "bombs/a.X.npz: empty rows", "bombs/p.npz: zeros",
        "bombs/a.parquet: a long text", "bombs/saved: a long text",
    ),
}  # fmt: skip


@pytest.mark.parametrize("group", FEW)
def test_it_holds(group, tmp_path, monkeypatch):
    monkeypatch.setattr(files, "_FILES", 20)
    names = [name for name in frame.chosen(group) if name in QUICK.get(group, [name])]
    assert len(names) == len(QUICK.get(group, names)) > 0
    report = frame.run(names, trials=FEW[group], folder=tmp_path)
    assert not report.findings, "\n".join(report.lines())


@pytest.mark.parametrize("name", [name for name in SEEDS if not name.startswith("w.")])
def test_what_is_attacked_is_sound(name, tmp_path):
    for file, content in files_of(name).items():
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_bytes(content)
    read_seed(name, tmp_path)
