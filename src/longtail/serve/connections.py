"""Connections that cannot starve others: idle and slow ones are closed, and their number and heads are bounded."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from longtail.serve import metrics
from longtail.serve.farewell import LINGER
from longtail.serve.gate import Gate
from longtail.serve.problems import raw_refusal

_LAST_REQUEST = 0.3  # seconds
_PARTING = 128  # connections beyond the limit whose clients are given time to read their answer
_MOST_IGNORED = 1 << 20  # bytes that may still come after the last answer
_LONGEST_HEAD = 1 << 16  # bytes of the address and the headers of a request
_LONG_HEAD = f"address and headers have more than {_LONGEST_HEAD:,} bytes"
_ENDING = "the service is ending; try again in a moment"
_UNREADABLE = "this is no HTTP request that can be read; its sender has a fault, or speaks another protocol"


class _Refused:
    """Stands for a request that was answered by its head alone: what follows of it is thrown away."""

    response_complete = True
    disconnected = more_body = keep_alive = False
    message_event = asyncio.Event()


_REFUSED: Any = _Refused()


class GuardedProtocol(HttpToolsProtocol):
    """uvicorn's protocol, which waits for the head of a request without an end, with limits.

    A request that has no room in the queue is answered here, before a task is made for it: under overload most of the
    work is refusing, and what it costs is taken from the requests that are accepted.
    """

    idle_limit = 10.0  # seconds; the worker sets these three
    max_connections = 1_000
    gate: Gate | None = None
    _timer: asyncio.TimerHandle | None = None
    _in_head, _head = True, 0  # whether the head of a request is awaited, and how much of it has come
    _parting = False  # whether the last answer was given
    _answering: Any = None  # uvicorn's request that is being answered; others, sent without waiting, follow it

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        metrics.connections.inc()
        if len(self.connections) > self.max_connections:
            self._end("connections", raw_refusal(503, "too many connections are open; try again in a moment"))
            return
        self._expect()

    def data_received(self, data: bytes) -> None:
        self._head += len(data)
        if self._parting:
            if self._head > _MOST_IGNORED:
                self.transport.close()
            return
        super().data_received(data)
        if self._in_head and self._head > _LONGEST_HEAD and not self.transport.is_closing():
            self._end("size", raw_refusal(431, _LONG_HEAD))

    def send_400_response(self, msg: str) -> None:
        """Answer what cannot be parsed with a problem, as everything else; uvicorn's message says no more."""
        self._end("unreadable", raw_refusal(400, _UNREADABLE))

    def _unsupported_upgrade_warning(self) -> None:
        """Say nothing: a request for another protocol is answered in this one (RFC 9110, 7.8)."""

    def _start_asgi_task(self, cycle: Any, app: Any) -> None:
        self._answering = cycle
        super()._start_asgi_task(cycle, app)

    def shutdown(self) -> None:
        if self.cycle is None or self.cycle.response_complete:
            # A request may be on its way, or in the system's buffer: closing now would answer it with a reset.
            self.loop.call_later(_LAST_REQUEST, self._shut_down_idle)
        else:
            super().shutdown()

    def _shut_down_idle(self) -> None:
        if self.cycle is not None and not self.cycle.response_complete:
            super().shutdown()  # a request has come
        elif not self.transport.is_closing() and not self._parting:
            # Who has sent nothing so far has not been answered either.
            self._part(raw_refusal(503, _ENDING) if self.cycle is None else b"")

    def connection_lost(self, exc: Exception | None) -> None:
        metrics.connections.dec()
        self._relax()
        self._forget_requests()  # uvicorn tells the last one only
        super().connection_lost(exc)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._expect()  # the rest of the head must follow

    def on_headers_complete(self) -> None:
        if self._parting:  # what follows a request that was refused, in the same bytes
            self.cycle = _REFUSED
            return
        self._in_head = False
        self._relax()
        if self._head > _LONGEST_HEAD and self._head_size() > _LONGEST_HEAD:  # what was read may have a body, too
            self.cycle = _REFUSED
            self._end("size", raw_refusal(431, _LONG_HEAD))
        elif not self._refused():
            super().on_headers_complete()

    def _head_size(self) -> int:
        return len(self.url) + sum(len(name) + len(value) for name, value in self.headers)

    def _end(self, reason: str, answer: bytes) -> None:
        """Answer, count the refusal, and close the connection."""
        if self._parting:  # what follows a refused request, in the same bytes, cannot be read either
            return
        metrics.rejected.labels(reason).inc()
        self._part(answer)

    def _part(self, answer: bytes) -> None:
        """Give the last answer. Closing at once would reset the connection if the client were still sending."""
        self._parting, self._head = True, 0
        self._forget_requests()
        self._relax()
        self._unset_keepalive_if_required()
        if answer:
            self.transport.write(answer)
        if self.transport.can_write_eof() and len(self.connections) <= self.max_connections + _PARTING:
            self.transport.write_eof()
            self._timer = self.loop.call_later(LINGER, self.transport.close)
        else:
            self.transport.close()

    def _forget_requests(self) -> None:
        """Let requests that are not answered yet find that their client has gone."""
        self.pipeline.clear()
        if self._answering is not None and not self._answering.response_complete:
            self._answering.disconnected = True
            self._answering.waiting_for_100_continue = False
            self._answering.message_event.set()

    def _refused(self) -> bool:
        """Answer the request if there is no room for it; return whether that was done."""
        pipelined = self.pipeline or (self.cycle is not None and not self.cycle.response_complete)
        if self.gate is None or pipelined or self.parser.get_method() != b"POST":
            return False
        close = self.gate.closing() or not self.parser.should_keep_alive()
        answer = self.gate.early_refusal(self.client, self.url.partition(b"?")[0], self.headers, close=close)
        if not answer:
            return False
        self.cycle = _REFUSED
        if close:
            self._part(answer)
        else:
            self.transport.write(answer)
            self._expect()  # the body
        return True

    def on_response_complete(self) -> None:
        super().on_response_complete()
        # An answer may come before the whole request has, as 413 does: what still arrives is thrown away, for a while.
        if self.cycle is not None and self.cycle.more_body and not self.transport.is_closing():
            self._expect()

    def on_message_complete(self) -> None:
        if self._parting:
            return
        self._in_head, self._head = True, 0
        super().on_message_complete()
        self._relax()
        if self.cycle is _REFUSED and not self.transport.is_closing():
            self.timeout_keep_alive_task = self.loop.call_later(
                self.timeout_keep_alive, self.timeout_keep_alive_handler
            )

    def _expect(self) -> None:
        if self._parting:
            return
        self._relax()
        self._timer = self.loop.call_later(self.idle_limit, self._give_up)

    def _relax(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _give_up(self) -> None:
        if not self.transport.is_closing():
            metrics.rejected.labels("idle").inc()
            self.transport.close()
