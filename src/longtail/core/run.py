"""What a long piece of work is handed from outside: where to show progress, where to keep finished parts.

A model knows nothing of terminals, clusters or folders; it is handed a `Run` and uses what is in it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from longtail.core.checkpoint import Checkpoint
from longtail.core.progress import Progress, Silent


@dataclass
class Run:
    """Handed to `fit`: progress display, and the checkpoint of a job that may be resumed."""

    progress: Progress = field(default_factory=Silent)
    checkpoint: Checkpoint | None = None

    def part(self, name: str) -> Run:
        """The same progress, and a checkpoint within this run's: for one of several models that are trained."""
        return Run(self.progress, self.checkpoint.part(name) if self.checkpoint else None)
