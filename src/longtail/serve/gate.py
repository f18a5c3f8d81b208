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
from longtail.serve.batching import FULL
from longtail.serve.problems import GONE, Problem, busy, problem_response, raw_refusal, unexpected
from longtail.serve.settings import Settings

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
_QUEUED = ("/suggest", "/suggest-batch", "/predict", "/explain")  # ends of addresses whose requests wait in the queue
_QUEUED_BYTES = tuple(end.encode() for end in _QUEUED)
_PROTECTED = ("/v1", "/longtail", "/metrics", "/openapi.json", "/docs")


@lru_cache(maxsize=1000)
def _counters(route: str, status: int) -> tuple[Any, Any]:
    """Return the numbers of an address and a status; looking them up takes longer than counting."""
    return metrics.requests.labels(route, str(status)), metrics.seconds.labels(route)


def _count(route: str, status: int, seconds: float) -> None:
    count, duration = _counters(route, status)
    count.inc()
    duration.observe(seconds)


def _is_more_than(most: int, length: bytes) -> bool:
    """Return whether a length in digits exceeds `most`; zeros before it may be many, which `int` refuses to read."""
    digits = length.lstrip(b"0")
    return not length.isdigit() or len(digits) > len(str(most)) or int(digits or b"0") > most


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
    too_long : callable
        Returns the seconds that a request would wait in the queue, if that is too long, else None. Such requests are
        refused before anything of them is read or parsed, since under overload most of the work is refusing.
    shared : callable, default the application itself
        Takes an application and returns one whose answers scripts of other origins may read; for the gate's own ones.
    """

    def __init__(
        self, app: Any, settings: Settings, closing: Callable[[], bool], too_long: Callable[[], float | None],
        shared: Callable[[Any], Any] = lambda app: app,
    ) -> None:  # fmt: skip
        self.app, self.settings, self.closing, self.too_long, self.shared = app, settings, closing, too_long, shared
        self.token = settings.token.get_secret_value().encode() if settings.token else None
        self.log = AccessLog() if settings.access_log else None

    def early_refusal(self, client: Any, path: bytes, headers: list[tuple[bytes, bytes]], *, close: bool) -> bytes:
        """Return the answer to a POST request that has no room in the queue, or nothing; called with its head alone.

        Parameters
        ----------
        client : (str, int) or None
            Address of the client.
        path : bytes
            Address of the request, without its query.
        headers : list of (bytes, bytes)
            Headers, names in lower case.
        close : bool
            Whether the connection ends with the answer.

        Returns
        -------
        bytes
        """
        if not path.endswith(_QUEUED_BYTES) or not self._knows_token(dict(headers) if self.token else {}):
            return b""
        if self.settings.cors_origins:  # the answer needs headers that depend on those of the request
            return b""
        expected = self.too_long()
        if expected is None:
            return b""
        answer = raw_refusal(503, FULL, round(expected), close=close)
        _count("other", 503, 0.0)
        if self.log is not None:
            scope = {"client": client, "method": "POST", "path": path.decode("ascii", "replace")}
            self.log.write(scope, 503, 0.0, 0, len(answer))
        return answer

    def _knows_token(self, headers: dict[bytes, bytes]) -> bool:
        if self.token is None:
            return True
        scheme, _, token = headers.get(b"authorization", b"").partition(b" ")
        return hmac.compare_digest(token.strip(), self.token) and scheme.lower() == b"bearer"  # in any case (RFC 9110)

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
        try:
            refusal = self._refusal()
            if refusal is not None:
                await self._answer(refusal)
                return
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
        _count(getattr(self.scope.get("route"), "path", "other"), self.status, spent)
        if self.gate.log is not None:
            self.gate.log.write(self.scope, self.status, spent, self.read, self.sent)

    def _refusal(self) -> Problem | None:
        headers = dict(self.scope["headers"])
        protected = self.scope["path"].startswith(_PROTECTED) and self.scope["method"] != "OPTIONS"
        if protected and not self.gate._knows_token(headers):
            metrics.rejected.labels("token").inc()
            said = "the token is missing or wrong; send the header Authorization: Bearer TOKEN"
            return Problem(401, said, headers={"WWW-Authenticate": "Bearer"})
        length = headers.get(b"content-length", b"0")
        if _is_more_than(self.gate.settings.max_body, length):
            return self._too_large()
        self.whole = b"transfer-encoding" not in headers and not length.strip(b"0")  # there is no body to wait for
        if self.scope["method"] == "POST" and self.scope["path"].endswith(_QUEUED):
            expected = self.gate.too_long()
            if expected is not None:
                return busy(FULL, expected)
        return None

    def _too_large(self) -> Problem:
        metrics.rejected.labels("size").inc()
        return Problem(413, f"the request has more than {self.gate.settings.max_body:,} bytes; send it in parts")

    async def _answer(self, problem: Problem) -> None:
        if not self.started:
            await self._reply(problem_response(problem.status_code, problem.detail, problem.title, problem.headers))

    async def _reply(self, response: Any) -> None:
        await self.gate.shared(response)(self.scope, self._receive, self.send)
