"""One bounded queue of texts per worker; what waits while a batch is predicted becomes the next batch.

A text that finds the thread idle is predicted at once, and under load batches grow by themselves. Predictions run in a
thread, so the event loop never waits for a model.

A batch costs little more than one text. Clients that were answered together tend to come back together, so the next
batch waits for as many of them as there were, but for no longer than a millisecond.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from queue import SimpleQueue
from threading import Thread
from typing import Any

from longtail.serve import metrics
from longtail.serve.problems import busy

logger = logging.getLogger(__name__)

FULL = "too many requests are waiting; try again in a moment"
_START = 0.002  # seconds per text that are expected before any was predicted
_TICK = 0.005  # seconds between looks at how late the event loop is
_MEMORY = 0.1  # share of the newest batch in the expected seconds per text
_GATHER = 0.001  # seconds that a batch waits for clients who were just answered

_REJECTED = metrics.rejected.labels("queue")


@dataclass(eq=False)
class Job:
    """Inputs of one request, and where its answer goes.

    Parameters
    ----------
    key : tuple
        Jobs with the same key are predicted together.
    work : callable
        Takes the inputs of several jobs and returns one answer per input.
    inputs : sequence
        Texts, or rows of features.
    answer : Future
        Gets the answers of these inputs, or the error.
    """

    key: tuple[Any, ...]
    work: Callable[[list[Any]], Sequence[Any]]
    inputs: Sequence[Any]
    answer: asyncio.Future[Sequence[Any]]


Settled = tuple[Job, Any, Exception | None]  # a job with its answers, or with its error


class BatchQueue:
    """Jobs that wait for the prediction thread.

    Parameters
    ----------
    most : int
        Inputs that may wait.
    seconds : float
        A job is refused where those before it are expected to take longer, and are at least `batch` jobs; or where the
        event loop is later than that, and at least half as many jobs wait.
    batch : int
        Inputs that are predicted together; a larger job is one batch.
    longest : float, default 15.0
        Seconds that no job waits for: one that is expected to wait longer is refused, however few are before it.
    """

    def __init__(self, most: int, seconds: float, batch: int, longest: float = 15.0) -> None:
        self.most, self.seconds, self.batch, self.longest = most, seconds, batch, longest
        self.waiting = 0  # inputs
        self._running = 0  # inputs that are being predicted
        self._jobs: deque[Job] = deque()
        self._per_input = _START
        self._thread: Thread | None = None
        self._handed: SimpleQueue[tuple[asyncio.AbstractEventLoop, list[Job]] | None] = SimpleQueue()
        self._together = 1  # requests that were under way when the last batch was answered
        self._answered = 0.0  # when that was
        self._gathering: asyncio.TimerHandle | None = None
        self._lag, self._ticked = 0.0, float("inf")  # seconds that the event loop was late, and when that was seen

    def check_room(self, count: int = 1) -> None:
        """Raise a problem with status 503 if there is no room for `count` more inputs."""
        expected = self.too_long(count)
        if expected is not None:
            raise busy(FULL, expected)

    def too_long(self, count: int = 1) -> float | None:
        """Return the seconds that `count` more inputs would wait, if that is too long; None if there is room."""
        late = self.lateness()
        expected = (self.waiting + self._running) * self._per_input + late
        slow = expected > (self.seconds if len(self._jobs) >= self.batch else self.longest)
        if self.waiting + count > self.most or slow or (late > self.seconds and 2 * len(self._jobs) >= self.batch):
            _REJECTED.inc()
            return expected
        return None

    def lateness(self) -> float:
        """Return for how long what the event loop reads now may have waited for it, in seconds."""
        return max(self._lag + time.perf_counter() - self._ticked - _TICK, 0.0)

    async def submit(self, key: tuple[Any, ...], work: Callable[[list[Any]], Sequence[Any]], inputs: Any) -> Any:
        """Wait for the answers to some inputs, in order.

        Parameters
        ----------
        key : tuple
            Jobs with the same key may be predicted together by the `work` of any of them.
        work : callable
            Takes a list of inputs and returns one answer per input; called in the prediction thread.
        inputs : sequence
            Inputs.

        Returns
        -------
        sequence
        """
        self.check_room(len(inputs))
        loop = asyncio.get_running_loop()
        job = Job(key, work, inputs, loop.create_future())
        self._jobs.append(job)
        self._count(len(inputs))
        if self._running == 0:
            loop.call_soon(self._begin, loop)  # after the other requests that were read at the same time
        return await job.answer

    async def watch_lag(self) -> None:
        """Measure, without end, how late the event loop is; one that is late has no room for more."""
        while True:
            due = time.perf_counter() + _TICK
            await asyncio.sleep(_TICK)
            self._ticked = time.perf_counter()
            self._lag = max(self._ticked - due, 0.0)

    async def close(self) -> None:
        """Wait for what was accepted, and end the thread."""
        while self._jobs or self._running:
            await asyncio.sleep(0.01)
        if self._thread is not None:
            self._handed.put(None)
            self._thread.join()
            self._thread = None

    def _begin(self, loop: asyncio.AbstractEventLoop) -> None:
        """Hand the next batch to the thread, unless it is at work, or more requests are about to come."""
        if self._running or not self._jobs or (self._gathering is not None and self._expects_more()):
            return
        if self._gathering is None and self._expects_more():
            self._gathering = loop.call_later(_GATHER, self._gathered, loop)
            return
        self._stop_gathering()
        jobs = self._next_batch()
        if not jobs:
            return
        self._running = sum(len(job.inputs) for job in jobs)
        if self._thread is None:
            self._thread = Thread(target=self._work, name="predict", daemon=True)
            self._thread.start()
        self._handed.put((loop, jobs))

    def _expects_more(self) -> bool:
        """Return whether clients that were answered a moment ago have not come back yet."""
        few = len(self._jobs) < self._together and self.waiting < self.batch
        return few and time.perf_counter() - self._answered < 2 * _GATHER

    def _gathered(self, loop: asyncio.AbstractEventLoop) -> None:
        self._gathering, self._together = None, 0  # they do not come
        self._begin(loop)

    def _stop_gathering(self) -> None:
        if self._gathering is not None:
            self._gathering.cancel()
            self._gathering = None

    def _next_batch(self) -> list[Job]:
        """Take the oldest job, and those after it that can be predicted with it."""
        taken: list[Job] = []
        passed: list[Job] = []
        size = 0
        while self._jobs and size < self.batch and len(passed) < self.batch:
            job = self._jobs.popleft()
            if job.answer.done():  # its client has gone, or its time is over
                self._count(-len(job.inputs))
            elif not taken or (job.key == taken[0].key and size + len(job.inputs) <= self.batch):
                taken.append(job)
                size += len(job.inputs)
                self._count(-len(job.inputs))
            else:
                passed.append(job)
        self._jobs.extendleft(reversed(passed))
        return taken

    def _work(self) -> None:
        """Predict batch after batch, in the prediction thread."""
        while (handed := self._handed.get()) is not None:
            loop, jobs = handed
            settled: list[Settled]
            try:
                settled = self._predicted(jobs)
            except Exception as error:  # whatever happens, nobody waits without an end
                settled = [(job, None, error) for job in jobs]
            with contextlib.suppress(RuntimeError):  # the loop has ended, and nobody waits
                loop.call_soon_threadsafe(self._settle, loop, settled)

    def _predicted(self, jobs: list[Job]) -> list[Settled]:
        start = time.perf_counter()
        inputs = [one for job in jobs for one in job.inputs]
        try:
            answers: Any = jobs[0].work(inputs)
        except Exception as error:
            if len(jobs) == 1:
                return [(jobs[0], None, error)]
            return [one for job in jobs for one in self._predicted([job])]  # one request must not fail for another
        self._per_input += _MEMORY * ((time.perf_counter() - start) / max(len(inputs), 1) - self._per_input)
        metrics.batch_size.observe(len(inputs))
        settled: list[Settled] = []
        first = 0
        for job in jobs:
            settled.append((job, answers[first : first + len(job.inputs)], None))
            first += len(job.inputs)
        return settled

    def _settle(self, loop: asyncio.AbstractEventLoop, jobs: list[Settled]) -> None:
        for job, answers, error in jobs:
            if job.answer.done():
                continue
            if error is None:
                job.answer.set_result(answers)
            else:
                job.answer.set_exception(error)
        self._running = 0
        self._together, self._answered = len(jobs) + len(self._jobs), time.perf_counter()
        self._begin(loop)

    def _count(self, change: int) -> None:
        self.waiting += change
        metrics.waiting.set(self.waiting)
