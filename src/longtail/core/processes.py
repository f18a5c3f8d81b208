"""Training in several processes: which of them writes."""

from __future__ import annotations

import os


def helps_another_process() -> bool:
    """Whether this process trains together with others (torchrun, accelerate) and is not the first of them.

    Only the first writes models and checkpoints; the others read what it left when a training is resumed.
    """
    return int(os.environ.get("WORLD_SIZE", "1")) > 1 and int(os.environ.get("RANK", "0")) > 0
