"""A small HTTP client for load: requests are bytes made beforehand, latency counts from when a request was due.

An open loop sends at a fixed rate whatever the answers do, as independent users would: a stalled service shows in the
latency of all requests that were due meanwhile (no coordinated omission).
"""

from __future__ import annotations

import asyncio
import itertools
import math
import time
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import httptools

_IDLE = 5.0  # seconds: the service closes connections that are idle for longer, perhaps while a request is on its way
_BEHIND = 0.002  # seconds: sleeps shorter than this cost more than they are worth


def request(path: str, body: bytes, kind: str) -> bytes:
    """Return a POST request."""
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


@dataclass
class Answers:
    """What came back: latencies in seconds by status (0: the connection broke)."""

    seconds: list[float] = field(default_factory=list)
    statuses: list[int] = field(default_factory=list)

    def add(self, seconds: float, status: int) -> None:
        self.seconds.append(seconds)
        self.statuses.append(status)

    def figures(self) -> dict[str, Any]:
        """Return counts by status, and quantiles in milliseconds of the answers with status 200."""
        good = sorted(s for s, status in zip(self.seconds, self.statuses, strict=True) if status == 200)
        return {
            "statuses": {str(status): count for status, count in sorted(Counter(self.statuses).items())},
            **{name: _quantile(good, level) for name, level in (("p50", 0.5), ("p90", 0.9), ("p99", 0.99))},
            "worst": _quantile(good, 1.0),
        }


def _quantile(ordered: list[float], level: float) -> float | None:
    return round(1000 * ordered[min(len(ordered) - 1, math.ceil(level * len(ordered)) - 1)], 2) if ordered else None


class _Connection(asyncio.Protocol):
    """One connection with at most one request under way."""

    def __init__(self) -> None:
        self.transport: Any = None
        self.used = time.monotonic()
        self.answered: asyncio.Future[int] | None = None
        self.parser = httptools.HttpResponseParser(self)

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.parser.feed_data(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._settle(0)

    def on_message_complete(self) -> None:
        status = self.parser.get_status_code()
        closing = not self.parser.should_keep_alive()
        self.parser = httptools.HttpResponseParser(self)
        if closing:
            self.transport.close()
        self._settle(status)

    def is_stale(self) -> bool:
        """Whether the connection is closed, or may be closed any moment."""
        return bool(self.transport.is_closing()) or time.monotonic() - self.used > _IDLE

    def send(self, content: bytes) -> asyncio.Future[int]:
        self.used = time.monotonic()
        self.answered = asyncio.get_running_loop().create_future()
        self.transport.write(content)
        return self.answered

    def _settle(self, status: int) -> None:
        if self.answered is not None and not self.answered.done():
            self.answered.set_result(status)


class Pool:
    """Connections to one service, opened as they are needed."""

    def __init__(self, host: str, port: int, most: int) -> None:
        self.host, self.port, self.most = host, port, most
        self._free: deque[_Connection] = deque()
        self._slots = asyncio.Semaphore(most)

    async def send(self, content: bytes) -> int:
        """Send a request over a free connection, and return the status of the answer."""
        async with self._slots:
            while self._free and self._free[-1].is_stale():
                self._free.pop().transport.close()
            if self._free:
                connection = self._free.pop()
            else:
                try:
                    loop = asyncio.get_running_loop()
                    _, connection = await loop.create_connection(_Connection, self.host, self.port)
                except OSError:
                    return 0
            status = await connection.send(content)
            if not connection.transport.is_closing():
                self._free.append(connection)
            return status

    def close(self) -> None:
        for connection in self._free:
            connection.transport.close()


async def open_loop(
    pool: Pool, requests: Sequence[bytes], rate: float, seconds: float, stop: asyncio.Event | None = None
) -> Answers:
    """Send `rate` requests per second for some seconds, and wait for all answers."""
    answers, running, now = Answers(), set(), time.perf_counter  # uvloop's own clock counts whole milliseconds
    start = now()

    async def one(content: bytes, due: float) -> None:
        status = await pool.send(content)
        answers.add(now() - due, status)

    for number, content in zip(range(int(rate * seconds)), itertools.cycle(requests), strict=False):
        due = start + number / rate
        if due - now() > _BEHIND:
            await asyncio.sleep(due - now())
        if stop is not None and stop.is_set():
            break
        task = asyncio.create_task(one(content, due))
        running.add(task)
        task.add_done_callback(running.discard)
    while running:
        await asyncio.sleep(0.01)
    return answers


async def closed_loop(pool: Pool, requests: Sequence[bytes], clients: int, seconds: float) -> tuple[Answers, float]:
    """Let some clients send one request after the other; returns their answers and the seconds that it took."""
    answers, turn, now = Answers(), itertools.cycle(requests), time.perf_counter
    start = now()

    async def client() -> None:
        while (sent := now()) - start < seconds:
            answers.add(-sent, 0)
            place = len(answers.seconds) - 1
            status = await pool.send(next(turn))
            answers.seconds[place], answers.statuses[place] = now() - sent, status

    await asyncio.gather(*(client() for _ in range(clients)))
    return answers, now() - start
