"""The long check of dependencies: it tells "nothing found" from "could not ask", and other files from known ones."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from scripts import lock

ROOT = Path(__file__).parents[1]
SOUND = {"name": "a", "version": "1", "vulns": []}
WEAK = {"name": "b", "version": "2", "vulns": [{"id": "CVE-1", "fix_versions": ["3"]}]}
SKIPPED = {"name": "c", "skip_reason": "not found"}


@pytest.mark.parametrize(
    ("answer", "code", "said"),
    [
        ([SOUND], 0, "no known vulnerability in 1 of 1"),
        ([SOUND, WEAK, SKIPPED], 1, "b 2: CVE-1, fixed in 3"),
        ([SOUND, SKIPPED], 3, "NOT CHECKED: the vulnerability service did not answer about 1 versions, e.g. c"),
        ([SKIPPED], 3, "NOT CHECKED"),
        (None, 3, "NOT CHECKED: the vulnerability service could not be asked (no route)"),
    ],
)
def test_nothing_found_is_told_from_nothing_asked(tmp_path, answer, code, said):
    # What pip-audit would answer: it exits with 0 although it skipped packages, and with 1 for findings and failures.
    python = tmp_path / "python"
    last = "echo no route >&2; exit 1" if answer is None else f"cat <<'E'\n{json.dumps({'dependencies': answer})}\nE"
    python.write_text(f"#!/bin/sh\n{last}\n")
    python.chmod(0o755)
    command = [sys.executable, "-m", "scripts.vulnerabilities", str(python)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == code
    assert said in done.stdout + done.stderr


def test_files_with_other_digests_are_named():
    known = {"a==1": {"11", "22"}, "gone==1": {"3"}}
    found = {"a==1": ("33", "a-1.whl"), "new==1": ("4", "new-1.whl")}
    wrong = lock.differences(known, found)
    assert [line.partition(":")[0] for line in wrong] == ["gone==1", "a==1", "new==1"]
    assert "a-1.whl has the digest 33" in wrong[1]
    assert lock.differences({"a==1": {"11", "22"}}, {"a==1": ("22", "a-1.whl")}) == []


def test_the_lock_can_be_read():
    assert lock.locked()
    for pin, digests in lock.locked().items():
        assert "==" in pin
        assert digests
        assert all(len(digest) == 64 and set(digest) <= set("0123456789abcdef") for digest in digests)


def test_every_pinned_version_has_a_digest():
    assert list(lock.locked()) == lock.pinned(), "run `python -m scripts.lock`"
