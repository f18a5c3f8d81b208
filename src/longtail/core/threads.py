"""Work in threads: how many, in which order, and when they end."""

from __future__ import annotations

import contextlib
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from itertools import islice
from typing import TypeVar

import numpy as np

from longtail.errors import ParameterError

_MOST_PER_CORE = 8
_most: int | None = None

Item = TypeVar("Item")
Result = TypeVar("Result")


def limit_threads(most: int) -> None:
    """Let this process use at most so many threads: a worker of a cluster shares its machine with others."""
    global _most
    _most = most


def thread_count(n_jobs: int | None) -> int:
    """Return the number of threads for `n_jobs`; None or -1 means all cores that this process may use.

    More than eight per core are not started: they would be of no use, and OpenMP ends the process if it cannot start
    them.
    """
    available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    available = min(available, _most or available)
    if n_jobs is None or n_jobs == -1:
        return available
    if isinstance(n_jobs, bool) or not isinstance(n_jobs, (int, np.integer)) or n_jobs < 1:
        raise ParameterError(f"n_jobs is {n_jobs!r}, but must be a whole number of threads, or -1 for all cores")
    return min(int(n_jobs), _most or _MOST_PER_CORE * available)


@contextlib.contextmanager
def in_threads(
    work: Callable[[Item], Result], items: Iterable[Item], *, n_jobs: int | None = None, ahead: int | None = None
) -> Iterator[Iterator[Result]]:
    """Compute `work(item)` in threads (kernels release the GIL).

    An interrupt or an error waits for the items that are running and drops the rest. The threads end with the `with`
    block. They must not end with the iterator instead: a traceback may keep it alive, and then the garbage collector
    would wait for threads, in any thread and under any lock, possibly forever.

    Parameters
    ----------
    work : callable
        Function of one item.
    items : iterable
        Items; they are read as needed.
    n_jobs : int, optional
        Number of threads; None or -1 for all cores.
    ahead : int, optional
        Items that may be running or waiting for the caller, so that results do not pile up; twice the number of
        threads by default. Give more if items differ much in size.

    Yields
    ------
    iterator
        Results in the order of the items.
    """
    threads = thread_count(n_jobs)
    if threads == 1:
        yield map(work, items)
        return
    with ThreadPoolExecutor(threads) as pool:
        queue: deque[Future[Result]] = deque()

        def results() -> Iterator[Result]:
            remaining = iter(items)
            queue.extend(pool.submit(work, item) for item in islice(remaining, ahead or 2 * threads))
            while queue:
                wait([queue[0]])  # an interrupt here leaves it in the queue
                yield queue.popleft().result()
                queue.extend(pool.submit(work, item) for item in islice(remaining, 1))

        try:
            yield results()
        finally:
            for future in queue:
                future.cancel()


def each_in_threads(work: Callable[[Item], None], items: Sequence[Item], *, n_jobs: int | None = None) -> None:
    """Call `work(item)` for each item, in at most as many threads as there are items."""
    with in_threads(work, items, n_jobs=min(thread_count(n_jobs), max(len(items), 1))) as calls:
        for _ in calls:
            pass
