"""What all routes share: settings, models, queue and journal, and the checks that several of them need."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from typing import Any, Protocol

from longtail.serve.batching import BatchQueue
from longtail.serve.feedback import Journal
from longtail.serve.models import Models, Served
from longtail.serve.problems import Problem
from longtail.serve.settings import Settings
from longtail.serve.suggesting import Wish

logger = logging.getLogger(__name__)


class Asked(Protocol):
    """A request for suggestions."""

    limit: int
    threshold: float
    exponent: float | None
    exclude: list[str]


class Service:
    """The service of one worker.

    Parameters
    ----------
    settings : Settings
        Settings of the service.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.models = Models(settings)
        self.queue = BatchQueue(settings.queue, settings.queue_seconds, settings.batch, settings.time_limit / 2)
        self.journal = Journal(settings.feedback)
        self.draining = False
        self.failed: BaseException | None = None  # why the models cannot be loaded
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def ready(self) -> bool:
        """Whether requests are welcome: models are loaded, and the service is not about to end."""
        return self.models.ready and not self.draining

    def start(self, on_failure: Any) -> None:
        """Begin to load the models, in a thread, and to watch their directories if the settings say so."""
        self._spawn(self._load(on_failure))
        self._spawn(self.queue.watch_lag())
        if self.settings.watch:
            self._spawn(self._watch())

    def refresh(self) -> None:
        """Load the models that have changed, in a thread."""
        self._spawn(self._refresh())

    async def stop(self) -> None:
        """Finish what was accepted."""
        for task in self._tasks:
            task.cancel()
        await self.queue.close()
        await asyncio.to_thread(self.journal.close)

    def language(self, served: Served, wanted: str | None) -> str:
        """Return the language to show labels in, or raise a problem if the labels have no names in it."""
        if not wanted:
            return served.labels.language
        if wanted not in served.labels.languages:
            known = ", ".join(served.labels.languages)
            raise Problem(400, f'language "{wanted}" not supported by vocabulary; languages are {known}')
        return wanted

    def wish(self, served: Served, asked: Asked) -> Wish:
        """Return what a request asks for."""
        return Wish(asked.limit, asked.threshold, asked.exponent, self.numbers(served, asked.exclude))

    def numbers(self, served: Served, labels: list[str]) -> frozenset[int]:
        """Return the numbers of labels; those that the model does not know are never suggested anyway."""
        found = (served.labels.number(label) for label in labels)
        return frozenset(number for number in found if number is not None)

    def known(self, served: Served, labels: list[str]) -> list[str]:
        """Return the ids of labels in the data, or raise a problem for one that neither model nor vocabulary knows."""
        ids = []
        for label in labels:
            known = served.labels.id_of(label)
            if known is None:
                raise Problem(404, f"label {label!r} is neither one of the model {served.id!r} nor in its vocabulary")
            ids.append(known)
        return ids

    @staticmethod
    def json(value: Any) -> str:
        """Return a value as JSON."""
        return json.dumps(value)

    def _spawn(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _load(self, on_failure: Any) -> None:
        try:
            await asyncio.to_thread(self.models.refresh)
        except Exception as error:
            self.failed = error
            on_failure()

    async def _refresh(self, *, again: bool = True) -> None:
        with contextlib.suppress(Exception):  # `_load` says why a model cannot be loaded for the first time
            await asyncio.to_thread(self.models.refresh, again=again)

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(self.settings.watch)
            if self.models.ready:
                await self._refresh(again=False)
