"""Independent parts of a training: order, checkpoint and progress, whatever engine runs them."""

from __future__ import annotations

import numpy as np
import pytest

from longtail.core.checkpoint import Checkpoint
from longtail.core.run import Run


def scaled(shared, part):
    return {"x": shared * part}


class Steps:
    """A progress that notes what it is told."""

    def __init__(self):
        self.events = []

    def start(self, task, total):
        self.events.append((task, total))

    def advance(self, amount=1):
        self.events.append(amount)

    def note(self, text): ...

    def finish(self):
        self.events.append("done")


def mapped(run, parts, work=scaled, **options):
    with run.map(work, parts, shared=np.arange(3.0), name="p", title="parts", n_jobs=2, **options) as results:
        return [arrays["x"].tolist() for arrays in results]


def test_results_come_in_the_order_of_the_parts_and_advance_the_progress_by_their_sizes():
    progress = Steps()
    found = mapped(Run(progress), [2.0, 5.0], sizes=[10, 20])
    assert found == [[0, 2, 4], [0, 5, 10]]
    assert progress.events == [("parts", 30), 10, 20, "done"]


def test_finished_parts_come_from_the_checkpoint_unless_they_were_cut_differently(tmp_path, caplog):
    for resume in (False, True):
        checkpoint = Checkpoint(tmp_path / "m.partial", resume=resume)
        checkpoint.open({})
        if not resume:
            mapped(Run(checkpoint=checkpoint), [1.0, 2.0, 3.0])
            checkpoint._unlock()
    calls = []

    def counted(shared, part):
        calls.append(part)
        return scaled(shared, part)

    assert mapped(Run(checkpoint=checkpoint), [1.0, 7.0, 3.0], counted) == [[0, 1, 2], [0, 7, 14], [0, 3, 6]]
    assert calls == [7.0]
    assert "p-000001 was cut differently" in caplog.text


def test_parts_that_the_caller_keeps_are_not_kept_twice(tmp_path):
    checkpoint = Checkpoint(tmp_path / "m.partial", resume=False)
    checkpoint.open({})
    mapped(Run(checkpoint=checkpoint), [1.0], keep=False)
    assert not list((tmp_path / "m.partial").glob("*.safetensors"))


def test_an_error_in_a_part_reaches_the_caller():
    def failing(shared, part):
        raise ValueError(f"part {part}")

    with pytest.raises(ValueError, match="part 1"):
        mapped(Run(), [1.0, 2.0], failing)
