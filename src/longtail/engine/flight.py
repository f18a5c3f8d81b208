"""One task on its way through a Ray cluster: which parts are in flight, which are back, which were lost."""

from __future__ import annotations

import logging
import time
import uuid
from collections import Counter, deque
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from longtail.core.engine import Arrays, Task
from longtail.engine.transport import pack
from longtail.engine.worker import compute_parts, versions
from longtail.errors import EngineError, LongtailError, TrainingError, first_line

if TYPE_CHECKING:
    from longtail.engine.ray import RayEngine

logger = logging.getLogger(__name__)

_SECONDS = 5.0  # that a bundle of parts should take: then what Ray adds does not matter
_PER_CPU = 2  # bundles in flight, so that none waits for the driver
_WAIT = 2.0  # seconds between looks at the cluster
_PATIENCE = 60.0  # seconds without a node that could compute a part, until a warning
_MOST_KILLED = 25  # times that a worker may end with the same part: then it is the part
_MOST_WITHOUT_MEMORY = 5
_HELD = 1 << 30  # bytes of results that wait in memory for their turn; others wait in the checkpoint


class Flight:
    """The parts of a task, sent to workers in bundles.

    Parameters
    ----------
    task : Task
        What to compute.
    cluster : RayEngine
        Where to compute it.
    sent : callable
        Returns the reference to a large array; see `transport.Sent`.
    """

    def __init__(self, task: Task, cluster: RayEngine, sent: Callable[[Any], Any]) -> None:
        import ray

        self.ray, self.task, self.cluster = ray, task, cluster
        content, self._references = pack(task.shared, sent, ray.cloudpickle.CloudPickler)
        self._content, self._key = ray.put(content), uuid.uuid4().hex
        self._compute = ray.remote(num_cpus=1, max_retries=0, memory=task.memory or None)(compute_parts)
        self._waiting: deque[int] = deque()
        self._pending: dict[Any, list[int]] = {}
        self._found: dict[int, Arrays | None] = {}  # None: in the checkpoint
        self._n_bytes = 0  # of those in memory
        self._lost: Counter[str] = Counter()
        self._failures: Counter[tuple[str, int]] = Counter()
        self._seconds = _SECONDS  # of a part, lately
        self._cpus, self._looked, self._busy = 1, 0.0, time.monotonic()

    def results(self) -> Iterator[Arrays]:
        """Yield the results in the order of the parts; they are taken, and kept, as they come."""
        for number in range(len(self.task.parts)):
            saved = self.task.saved(number)
            if saved is None:
                self._waiting.append(number)
            else:
                self._hold(number, saved, in_checkpoint=True)
        for number in range(len(self.task.parts)):
            while number not in self._found:
                self._look()
                self._send()
                self._take()
            yield self._turn(number)

    def end(self) -> None:
        """Cancel what is still in flight."""
        for reference in self._pending:
            self.ray.cancel(reference, force=True)
        self._pending.clear()

    def _look(self) -> None:
        """See how large the cluster is now, and say so."""
        if time.monotonic() - self._looked < _WAIT:
            return
        self._looked = time.monotonic()
        cpus = sum(int(node["Resources"]["CPU"]) for node in self.cluster.nodes(self.task.memory))
        if not cpus and time.monotonic() - self._busy > _PATIENCE:
            logger.warning(
                "the Ray cluster has no node with a CPU and %s of memory for a part; waiting for one",
                written(self.task.memory),
            )
            self._busy = time.monotonic()
        self._cpus = max(cpus, 1)
        lost = "".join(f", {count} lost with {what}" for what, count in sorted(self._lost.items()))
        self.task.progress.note(f"on {cpus} CPUs{lost}")

    def _send(self) -> None:
        while self._waiting and len(self._pending) < _PER_CPU * self._cpus:
            # As many as take some seconds, but at the end few, so that all workers have something to do.
            size = min(int(_SECONDS / max(self._seconds, 1e-6)), len(self._waiting) // (_PER_CPU * self._cpus))
            numbers = [self._waiting.popleft() for _ in range(min(max(size, 1), len(self._waiting)))]
            parts = [self.task.parts[number] for number in numbers]
            reference = self._compute.remote(
                self._key, versions(), self._content, self._references, self.task.work, parts
            )
            self._pending[reference] = numbers

    def _take(self) -> None:
        done, _ = self.ray.wait(list(self._pending), num_returns=1, timeout=_WAIT)
        if done:  # and whatever else is there by now
            done, _ = self.ray.wait(list(self._pending), num_returns=len(self._pending), timeout=0)
        for reference in done:
            numbers = self._pending.pop(reference)
            try:
                found, seconds = self.ray.get(reference)
            except self.ray.exceptions.RayError as error:
                self._again(numbers, error)
                continue
            self._seconds = 0.5 * self._seconds + 0.5 * seconds / len(numbers)
            self._busy = time.monotonic()
            for number, arrays in zip(numbers, found, strict=True):
                # Copied: what Ray returns is a view of its object store, which has to hold the next results.
                copies = {name: np.array(array) for name, array in arrays.items()}
                if self.task.keep:
                    self.task.save(number, copies)
                self._hold(number, copies, in_checkpoint=self.task.keep and self.task.checkpoint is not None)

    def _hold(self, number: int, arrays: Arrays, *, in_checkpoint: bool) -> None:
        """Keep a result until its turn: in memory, unless many wait there and the checkpoint has it, too."""
        size = _size(arrays)
        if in_checkpoint and self._n_bytes + size > _HELD:
            self._found[number] = None
            return
        self._found[number] = arrays
        self._n_bytes += size

    def _turn(self, number: int) -> Arrays:
        """Return a result that was found, which is then no longer held."""
        arrays = self._found.pop(number)
        if arrays is None:
            return self.task.result(number)
        self._n_bytes -= _size(arrays)
        return arrays

    def _again(self, numbers: list[int], error: Exception) -> None:
        """Queue lost parts once more, or raise the error if it would come back."""
        kinds = self.ray.exceptions
        if isinstance(error, kinds.RayTaskError):
            raise self._cause(error)
        if isinstance(error, kinds.LocalRayletDiedError):
            raise EngineError("the Ray node of this machine ended; start it and resume") from error
        what, most = "nodes", 0
        if isinstance(error, kinds.OutOfMemoryError):
            what, most = "too little memory", _MOST_WITHOUT_MEMORY
        elif isinstance(error, kinds.WorkerCrashedError):
            what, most = "workers", _MOST_KILLED
        elif not isinstance(error, (kinds.NodeDiedError, kinds.ObjectLostError, kinds.ObjectFetchTimedOutError)):
            raise EngineError(f"Ray could not run a part: {str(error).strip() or type(error).__name__}") from error
        self._lost[what] += 1
        self._failures[what, numbers[0]] += 1
        if most and self._failures[what, numbers[0]] >= most:
            raise TrainingError(
                f"a part was lost {most} times with {what}: {str(error).strip()[:500]}; give workers more memory "
                "(fewer CPUs per node), or look into the logs of Ray on that node"
            ) from error
        logger.info("%d parts were lost with %s; computing them again", len(numbers), what)
        self._waiting.extendleft(reversed(numbers))

    def _cause(self, error: Any) -> Exception:
        """Return the error that was raised on a worker, as the caller would see it without Ray."""
        if isinstance(error.cause, LongtailError):
            return error.cause
        self.cluster.check_nodes()  # a node without longtail may have come, which could not even begin
        return EngineError(f"a Ray worker could not begin to compute parts: {first_line(error.cause)}")


def written(n_bytes: int) -> str:
    """Return a size for a message."""
    return f"{n_bytes / 1e9:.1f} GB" if n_bytes >= 1e9 else f"{n_bytes / 1e6:.1f} MB"


def _size(arrays: Arrays) -> int:
    return sum(array.nbytes for array in arrays.values())
