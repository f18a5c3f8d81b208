"""One bounded queue of texts per worker; what waits while a batch is predicted becomes the next batch.

A text that finds the thread idle is predicted at once, and under load batches grow by themselves. Predictions run in a
thread, so the event loop never waits for a model.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from longtail.serve import metrics
from longtail.serve.problems import busy

logger = logging.getLogger(__name__)

_START = 0.002  # seconds per text that are expected before any was predicted
_TICK = 0.02  # seconds between looks at how late the event loop is
_MEMORY = 0.1  # share of the newest batch in the expected seconds per text

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
        A job is refused where those before it are expected to take longer, and are at least `batch` jobs.
    batch : int
        Inputs that are predicted together; a larger job is one batch.
    longest : float, default 15.0
        Seconds that no job waits for: one that is expected to wait longer is refused, however few are before it.
    """

    def __init__(self, most: int, seconds: float, batch: int, longest: float = 15.0) -> None:
        self.most, self.seconds, self.batch, self.longest = most, seconds, batch, longest
        self.waiting = 0  # inputs
        self._running = 0
        self._jobs: deque[Job] = deque()
        self._per_input = _START
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="predict")
        self._active: asyncio.Task[None] | None = None
        self._lag = 0.0  # seconds that the event loop is behind: requests that it has not read yet are waiting, too

    def check_room(self, count: int = 1) -> None:
        """Raise a problem with status 503 if there is no room for `count` more inputs."""
        expected = (self.waiting + self._running) * self._per_input + self._lag
        slow = expected > (self.seconds if len(self._jobs) >= self.batch else self.longest)
        if self.waiting + count > self.most or slow:
            _REJECTED.inc()
            raise busy("too many requests are waiting; try again in a moment", expected)

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
        job = Job(key, work, inputs, asyncio.get_running_loop().create_future())
        self._jobs.append(job)
        self._count(len(inputs))
        if self._active is None:
            self._active = asyncio.create_task(self._run())
        return await job.answer

    async def watch_lag(self) -> None:
        """Measure, without end, how late the event loop is; one that is late has no room for more."""
        while True:
            due = time.perf_counter() + _TICK
            await asyncio.sleep(_TICK)
            late = time.perf_counter() - due
            self._lag = late if late > _TICK else 0.0

    async def close(self) -> None:
        """Wait for what was accepted, and end the thread."""
        while self._active is not None:
            await asyncio.sleep(0.01)
        self._thread.shutdown()

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while self._jobs:
                jobs = self._next_batch()
                if jobs:
                    self._running = sum(len(job.inputs) for job in jobs)
                    await loop.run_in_executor(self._thread, self._predict, loop, jobs)
                    self._running = 0
        finally:
            self._active = None

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

    def _predict(self, loop: asyncio.AbstractEventLoop, jobs: list[Job]) -> None:
        start = time.perf_counter()
        inputs = [one for job in jobs for one in job.inputs]
        try:
            answers: Any = jobs[0].work(inputs)
        except Exception as error:
            if len(jobs) > 1:  # one request must not fail for another
                for job in jobs:
                    self._predict(loop, [job])
                return
            failed: list[Settled] = [(jobs[0], None, error)]
            loop.call_soon_threadsafe(_settle, failed)
            return
        self._per_input += _MEMORY * ((time.perf_counter() - start) / max(len(inputs), 1) - self._per_input)
        metrics.batch_size.observe(len(inputs))
        settled: list[Settled] = []
        first = 0
        for job in jobs:
            settled.append((job, answers[first : first + len(job.inputs)], None))
            first += len(job.inputs)
        loop.call_soon_threadsafe(_settle, settled)

    def _count(self, change: int) -> None:
        self.waiting += change
        metrics.waiting.set(self.waiting)


def _settle(jobs: list[Settled]) -> None:
    for job, answers, error in jobs:
        if job.answer.done():
            continue
        if error is None:
            job.answer.set_result(answers)
        else:
            job.answer.set_exception(error)
