"""The tutorial does not lie: its commands run, and the page shows what they print.

`python tests/test_tutorial.py` writes the outputs into the page again, after a change of what commands print.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "get-started" / "tutorial.md"
# A command or a program, and right behind it what it prints.
BLOCKS = re.compile(r"```(bash|python)\n(.*?)```\n(?:\n```text\n(.*?)```\n)?", flags=re.DOTALL)


def page_with_outputs(folder: Path) -> str:
    """Run the page in `folder`, one block after the other, and return it with what they printed."""
    shutil.copy(PAGE.with_name("notices.csv"), folder)
    command = folder / "bin" / "longtail"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m longtail.app.cli "$@"\n')
    command.chmod(0o755)
    settings = {"PATH": f"{command.parent}{os.pathsep}{os.environ['PATH']}", "COLUMNS": "100", "TERM": "dumb"}

    def shown(block: re.Match[str]) -> str:
        words = ["bash", "-euc", block[2]] if block[1] == "bash" else [sys.executable, "-c", block[2]]
        done = subprocess.run(
            words, cwd=folder, env=os.environ | settings, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        assert done.returncode == 0, f"{block[2]}\n{done.stdout}"
        if block[3] is None:
            return block[0]
        output = "".join(f"{line.rstrip()}\n" for line in done.stdout.splitlines())
        return f"```{block[1]}\n{block[2]}```\n\n```text\n{output}```\n"

    return BLOCKS.sub(shown, PAGE.read_text(encoding="utf-8"))


def comparable(page: str) -> str:
    """Return the page without what differs between machines: seconds, and the last digits of scores."""
    without_seconds = re.sub(r"\d+\.\d s;", "SECONDS;", page)
    return re.sub(r"-?\d+\.\d{5,}", lambda number: f"{float(number[0]):.3f}", without_seconds)


def test_the_page_shows_what_its_commands_print(tmp_path):
    assert comparable(page_with_outputs(tmp_path)) == comparable(PAGE.read_text(encoding="utf-8"))


def test_the_blocks_are_found():
    assert len(BLOCKS.findall(PAGE.read_text(encoding="utf-8"))) == 8


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        PAGE.write_text(page_with_outputs(Path(place)), encoding="utf-8")
