"""The environment of long work: where to show progress, where to keep finished parts.

A model knows nothing about terminals, clusters or folders; it gets a `Run` and uses what is in it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from longtail.core.checkpoint import Checkpoint
from longtail.core.progress import Progress, Silent


@dataclass
class Run:
    """The environment of one training, an argument of `fit`.

    Parameters
    ----------
    progress : Progress, default Silent()
        Where to show progress.
    checkpoint : Checkpoint, optional
        Where to keep finished parts, so that a killed training can be resumed.
    """

    progress: Progress = field(default_factory=Silent)
    checkpoint: Checkpoint | None = None

    def shown(self, verbose: bool) -> Run:
        """Return a run that shows its progress, if asked to; one that does already stays as it is."""
        if not verbose or not isinstance(self.progress, Silent):
            return self
        from longtail.core.display import display  # here: it needs Rich

        return Run(display(), self.checkpoint)

    def part(self, name: str) -> Run:
        """Return a run for one of several models: the same progress, and a checkpoint inside that of this run."""
        return Run(self.progress, self.checkpoint.part(name) if self.checkpoint else None)
