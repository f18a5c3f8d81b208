"""Suggestions without FastAPI: the two addresses that get most requests are answered before the routes are looked at.

Only what is in order takes this way. Everything else (other forms, a body that does not fit the schema, a wrong query)
is handed to the routes with the body that was read, so that problems are described in one place.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl

from pydantic import ValidationError

from longtail.errors import LongtailError
from longtail.serve import schemas
from longtail.serve.annif import batch_json, one_json
from longtail.serve.forms import FORM, fields_in
from longtail.serve.problems import GONE, Problem, problem_response
from longtail.serve.service import Service

_PATH = re.compile(r"/v1/projects/([A-Za-z0-9_-]+)/(suggest|suggest-batch)")
_HEAD = (b"content-type", b"application/json")


@dataclass(frozen=True)
class _Route:
    """What the gate counts a request by."""

    path: str


_ROUTES = {end: _Route(f"/v1/projects/{{project_id}}/{end}") for end in ("suggest", "suggest-batch")}


class NotInOrder(Exception):
    """The request is for the routes."""


class Shortcuts:
    """An ASGI application in front of another.

    Parameters
    ----------
    app : ASGI application
        What answers all other requests.
    service : Service
        Models and queue.
    """

    def __init__(self, app: Any, service: Service) -> None:
        self.app, self.service = app, service

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        found = _PATH.fullmatch(scope["path"]) if scope.get("method") == "POST" else None
        answer = None if found is None else self._answer_for(found[2], scope)
        if found is None or answer is None:
            await self.app(scope, receive, send)
            return
        scope["route"] = _ROUTES[found[2]]
        body: bytes | None = None
        try:
            body = await _body(receive)
            content = "" if body is None else await answer(found[1], body)
        except NotInOrder:
            del scope["route"]
            await self.app(scope, _replayed(body or b"", receive), send)
        except Problem as error:
            problem = problem_response(error.status_code, error.detail, error.title, error.headers)
            await problem(scope, receive, send)
        except LongtailError as error:
            await problem_response(400, str(error))(scope, receive, send)
        else:
            await _reply(send, GONE if body is None else 200, content.encode(), [_HEAD])

    def _answer_for(self, end: str, scope: Any) -> Callable[[str, bytes], Awaitable[str]] | None:
        kind = next((value for name, value in scope["headers"] if name == b"content-type"), b"").lower()
        if end == "suggest":
            return self._one if kind == FORM.encode() and not scope["query_string"] else None
        if kind != b"application/json":
            return None
        query = scope["query_string"]
        return lambda project, body: self._several(project, body, query)

    async def _one(self, project: str, body: bytes) -> str:
        return await one_json(self.service, project, await fields_in(body))

    async def _several(self, project: str, body: bytes, query: bytes) -> str:
        try:
            asked = dict(parse_qsl(query.decode("ascii"), keep_blank_values=True, strict_parsing=bool(query)))
            wanted = schemas.BatchQuery.model_validate(asked)
            documents = schemas.Documents.model_validate_json(body)
        except (ValidationError, ValueError) as error:
            raise NotInOrder from error
        return await batch_json(self.service, project, documents, wanted)


async def _body(receive: Any) -> bytes | None:
    """Return the whole body, or None if the client has gone."""
    parts = []
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        parts.append(message.get("body", b""))
        if not message.get("more_body", False):
            return b"".join(parts)


def _replayed(body: bytes, receive: Any) -> Any:
    """Return a `receive` that begins with a body that was read already."""
    read = False

    async def again() -> Any:
        nonlocal read
        if read:
            return await receive()
        read = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again


async def _reply(send: Any, status: int, content: bytes, headers: list[tuple[bytes, bytes]]) -> None:
    length = (b"content-length", str(len(content)).encode())
    await send({"type": "http.response.start", "status": status, "headers": [length, *headers]})
    await send({"type": "http.response.body", "body": content})
