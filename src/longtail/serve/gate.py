"""The gate in front of all routes: token, size and time of a request; every request is counted and logged.

A plain ASGI application: Starlette's middleware classes would start a task per request.
"""

from __future__ import annotations

import asyncio
import hmac
import time
from collections.abc import Awaitable, Callable, MutableMapping
from functools import lru_cache
from typing import Any

from longtail.serve import metrics
from longtail.serve.access_log import AccessLog
from longtail.serve.problems import GONE, Problem, problem_response, unexpected
from longtail.serve.settings import Settings

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
_QUEUED = ("/suggest", "/suggest-batch", "/predict", "/explain")  # ends of addresses whose requests wait in the queue
_PROTECTED = ("/v1", "/longtail", "/metrics", "/openapi.json", "/docs")


@lru_cache(maxsize=1000)
def _counters(route: str, status: int) -> tuple[Any, Any]:
    """Return the numbers of an address and a status; looking them up takes longer than counting."""
    return metrics.requests.labels(route, str(status)), metrics.seconds.labels(route)


class Gate:
    """An ASGI application around another.

    Parameters
    ----------
    app : ASGI application
        What answers requests that may pass.
    settings : Settings
        Settings of the service.
    closing : callable
        Returns whether the service is about to end: connections are then closed after their answer.
    check_room : callable
        Raises a problem where the queue is full: requests that would wait in it are then refused before anything of
        them is read or parsed, since under overload most of the work is refusing.
    """

    def __init__(
        self, app: Any, settings: Settings, closing: Callable[[], bool], check_room: Callable[[], None]
    ) -> None:
        self.app, self.settings, self.closing, self.check_room = app, settings, closing, check_room
        self.token = settings.token.get_secret_value().encode() if settings.token else None
        self.log = AccessLog() if settings.access_log else None

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        passage = Passage(self, scope, receive, send)
        try:
            await passage.run()
        finally:
            passage.record()


class Passage:
    """One request on its way through the gate."""

    def __init__(self, gate: Gate, scope: Any, receive: Receive, send: Send) -> None:
        self.gate, self.scope, self._receive, self._send = gate, scope, receive, send
        self.start = time.perf_counter()
        self.status = GONE  # unless an answer follows
        self.read = self.sent = 0
        self.started, self.whole = False, False

    async def run(self) -> None:
        """Answer the request."""
        refusal = self._refusal()
        if refusal is not None:
            await self._answer(refusal)
            return
        try:
            async with asyncio.timeout(self.gate.settings.time_limit):
                await self.gate.app(self.scope, self.receive, self.send)
        except TimeoutError:
            metrics.rejected.labels("time").inc()
            limit = f"{self.gate.settings.time_limit:g} seconds"
            late = Problem(504, f"the answer took more than {limit}; send less text, or try again later")
            slow = Problem(408, f"the request did not arrive within {limit}", headers={"Connection": "close"})
            await self._answer(late if self.whole else slow)
        except Exception as error:  # Starlette has answered and raises it again, or it happened outside the routes
            if not self.started:
                await self._reply(unexpected(error))

    async def receive(self) -> Message:
        """Pass the body on, up to its limit."""
        message = await self._receive()
        if message["type"] == "http.request":
            self.read += len(message.get("body", b""))
            self.whole = not message.get("more_body", False)
            if self.read > self.gate.settings.max_body:
                raise self._too_large()
        return message

    async def send(self, message: Message) -> None:
        """Pass the answer on, and take notes."""
        if message["type"] == "http.response.start":
            self.started, self.status = True, message["status"]
            if self.gate.closing():
                message["headers"] = [*message.get("headers", []), (b"connection", b"close")]
        else:
            self.sent += len(message.get("body", b""))
        await self._send(message)

    def record(self) -> None:
        """Count the request, and log it."""
        spent = time.perf_counter() - self.start
        count, duration = _counters(getattr(self.scope.get("route"), "path", "other"), self.status)
        count.inc()
        duration.observe(spent)
        if self.gate.log is not None:
            self.gate.log.write(self.scope, self.status, spent, self.read, self.sent)

    def _refusal(self) -> Problem | None:
        headers = dict(self.scope["headers"])
        if (
            self.gate.token is not None
            and self.scope["path"].startswith(_PROTECTED)
            and self.scope["method"] != "OPTIONS"
        ):
            given = headers.get(b"authorization", b"")
            if not hmac.compare_digest(given, b"Bearer " + self.gate.token):
                metrics.rejected.labels("token").inc()
                said = "the token is missing or wrong; send the header Authorization: Bearer TOKEN"
                return Problem(401, said, headers={"WWW-Authenticate": "Bearer"})
        length = headers.get(b"content-length", b"0")
        if not length.isdigit() or int(length) > self.gate.settings.max_body:
            return self._too_large()
        if self.scope["method"] == "POST" and self.scope["path"].endswith(_QUEUED):
            try:
                self.gate.check_room()
            except Problem as full:
                return full
        return None

    def _too_large(self) -> Problem:
        metrics.rejected.labels("size").inc()
        return Problem(413, f"the request has more than {self.gate.settings.max_body:,} bytes; send it in parts")

    async def _answer(self, problem: Problem) -> None:
        if not self.started:
            await self._reply(problem_response(problem.status_code, problem.detail, problem.title, problem.headers))

    async def _reply(self, response: Any) -> None:
        await response(self.scope, self._receive, self.send)
