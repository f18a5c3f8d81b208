"""Study files that were changed: refused with one line before anything is trained, and left as they are."""

from __future__ import annotations

import copy
import json

import pytest

from attack.own_files import OWN
from attack.seeds import files_of
from longtail.errors import DataError


def outcome(change):
    """Change what a trial says that it reached."""

    def changed(entry):
        if "outcome" in entry.get("user_attr", {}):
            change(entry["user_attr"]["outcome"])
        return entry

    return changed


CHANGES = {
    "an outcome without costs": outcome(lambda found: found.update(costs={})),
    "a metric that is no number": outcome(lambda found: found["curve"][0]["metrics"].update({"P@1": "high"})),
    "a curve that is no list": outcome(lambda found: found.update(curve=3)),
    "parameters that are no table": outcome(lambda found: found.update(values=[])),
    "operations that Optuna does not know": lambda entry: entry | {"op_code": 99},
}


@pytest.mark.parametrize("what", CHANGES)
def test_a_changed_study_is_refused(what, tmp_path):
    lines = [json.loads(line) for line in files_of("s.study")["s.study"].splitlines()]
    changed = [*lines[:2], *map(CHANGES[what], copy.deepcopy(lines[2:]))]
    assert changed != lines
    refused("\n".join(map(json.dumps, changed)) + "\n", tmp_path)


def test_a_line_in_the_middle_that_is_damaged_is_refused(tmp_path):
    lines = files_of("s.study")["s.study"].decode().splitlines()
    refused("\n".join([*lines[:4], lines[4][:-5], *lines[5:]]) + "\n", tmp_path)


def refused(content, folder):
    path = folder / "s.study"
    path.write_text(content)
    with pytest.raises(DataError, match=r"s\.study: .*not written by longtail tune"):
        OWN["s.study"][1](path)
    assert path.read_text() == content
