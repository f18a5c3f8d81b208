"""Training in several processes: which process writes."""

from __future__ import annotations

import os


def helps_another_process() -> bool:
    """Return whether this process trains together with others (torchrun, accelerate) and is not the first of them.

    Only the first process writes models and checkpoints; the others only read checkpoints, to resume a training.
    """
    return int(os.environ.get("WORLD_SIZE", "1")) > 1 and int(os.environ.get("RANK", "0")) > 0
