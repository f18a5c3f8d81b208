"""Where the independent parts of a training run: what an engine gets and does, and threads, the default engine.

A model asks for its parts by `Run.map` and knows nothing of engines. Work is a top-level function of what all parts
share and of one part, and returns named arrays: so another process or another machine can do it, and a folder can keep
what it returned. The model does not depend on the engine.
"""

from __future__ import annotations

import contextlib
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from longtail.core.checkpoint import Checkpoint
from longtail.core.progress import Progress, reported
from longtail.core.state import Array
from longtail.core.threads import in_threads

Arrays = dict[str, Array]
Work = Callable[[Any, Any], Arrays]
Item = TypeVar("Item")
Result = TypeVar("Result")

_MARK = "part"

logger = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class Task:
    """Independent parts of a training; `Run.map` documents the fields."""

    work: Work
    parts: Sequence[Any]
    shared: Any
    name: str
    title: str
    sizes: Sequence[int]
    mark: Callable[[Any], Any]
    n_jobs: int | None
    ahead: int | None
    memory: int
    keep: bool
    whole: bool
    checkpoint: Checkpoint | None
    progress: Progress

    def saved(self, number: int) -> Arrays | None:
        """Return what a checkpoint has of a part; None if nothing, or only of another part with this number."""
        found = self.checkpoint.get(self._file(number)) if self.checkpoint else None
        if found is None or np.array_equal(found.pop(_MARK, np.empty(0)), self._mark(number)):
            return found
        # Parts may depend on similarities in floating point.
        logger.warning("%s was cut differently, on another machine perhaps; repeating it", self._file(number))
        return None

    def save(self, number: int, arrays: Arrays) -> None:
        """Keep the result of a part in the checkpoint, if there is one."""
        if self.checkpoint:
            self.checkpoint.put(self._file(number), {**arrays, _MARK: self._mark(number)})

    def result(self, number: int) -> Arrays:
        """Return the result of a part: that in the checkpoint, or else a new one, which the checkpoint then keeps."""
        found = self.saved(number)
        if found is None:
            found = self.work(self.shared, self.parts[number])
            if self.keep:
                self.save(number, found)
        return found

    @contextlib.contextmanager
    def counted(self, numbers: Sequence[int], results: Iterator[Arrays]) -> Iterator[Iterator[Arrays]]:
        """Show progress as the results of these parts are taken."""

        def taken() -> Iterator[Arrays]:
            for number, found in zip(numbers, results, strict=True):
                yield found
                advance(self.sizes[number])

        with reported(self.progress, self.title, sum(self.sizes[number] for number in numbers)) as advance:
            yield taken()

    def _file(self, number: int) -> str:
        return f"{self.name}-{number:06d}"

    def _mark(self, number: int) -> Array:
        return np.asarray(self.mark(self.parts[number]))


class Engine(ABC):
    """Runs the independent parts of a training somewhere."""

    # Whether parts run outside this process, where its GPUs are of no use.
    elsewhere = True
    # Whether other processes compute parts for this one.
    has_helpers = False

    @abstractmethod
    def results(self, task: Task) -> AbstractContextManager[Iterator[Arrays]]:
        """Yield the results of a task in the order of its parts."""

    def each(self, step: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
        """Call `step` for each item, in this process; steps do not depend on each other, and run tasks of their own."""
        return [step(item) for item in items]


class Threads(Engine):
    """Parts in the threads of this process."""

    elsewhere = False

    @contextlib.contextmanager
    def results(self, task: Task) -> Iterator[Iterator[Arrays]]:
        numbers = range(len(task.parts))
        with (
            in_threads(task.result, numbers, n_jobs=task.n_jobs, ahead=task.ahead) as found,
            task.counted(numbers, found) as counted,
        ):
            yield counted
