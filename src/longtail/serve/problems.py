"""Errors as application/problem+json (RFC 9457): type, title, status, detail."""

from __future__ import annotations

import json
import logging
from functools import lru_cache
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from longtail.errors import LongtailError, first_line

logger = logging.getLogger(__name__)

MEDIA_TYPE = "application/problem+json"
GONE = 499  # status in log and metrics of a request whose client did not wait for the answer
_LONGEST = 500  # characters of a detail: it may quote what the client sent


class Problem(HTTPException):
    """An error that the client is told about.

    Parameters
    ----------
    status : int
        HTTP status.
    detail : str
        What is wrong, where, and what to do.
    title : str, default ""
        Short name of the kind of problem; "" takes that of the status.
    headers : dict or None, default None
        Headers of the response.
    """

    def __init__(self, status: int, detail: str, title: str = "", headers: dict[str, str] | None = None) -> None:
        super().__init__(status, detail, headers)
        self.title = title


def problem_response(status: int, detail: str, title: str = "", headers: Any = None) -> Response:
    """Return a problem as a response."""
    phrase = title or HTTPStatus(status).phrase
    body = {"type": "about:blank", "title": phrase, "status": status, "detail": detail[:_LONGEST]}
    # ASCII only: a detail may quote a lone surrogate, which UTF-8 does not have.
    return Response(json.dumps(body), status, headers, MEDIA_TYPE)


def busy(detail: str, seconds: float = 1) -> Problem:
    """Return the problem of a service that cannot take a request now."""
    return Problem(503, detail, headers={"Retry-After": str(max(1, round(seconds)))})


@lru_cache(maxsize=100)
def raw_refusal(status: int, detail: str, seconds: int = 1, *, close: bool = True) -> bytes:
    """Return a whole answer, for connections and requests that no application gets to see."""
    body = problem_response(status, detail).body
    head = f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\nContent-Type: {MEDIA_TYPE}\r\n"
    again = f"Retry-After: {max(seconds, 1)}\r\n" if status == 503 else ""
    end = "Connection: close\r\n\r\n" if close else "\r\n"
    return f"{head}Content-Length: {len(body)}\r\n{again}{end}".encode() + bytes(body)


def install(app: FastAPI) -> None:
    """Make every error of an app a problem."""

    async def on_http(_: Request, error: Any) -> Response:
        detail = str(error.detail)
        if error.status_code == 404 and detail == "Not Found":
            detail = "there is nothing at this address; /docs lists what there is"
        if error.status_code == 405:
            detail = "this address does not take that method; the header Allow lists those that it takes"
        if error.status_code == 400 and detail == "There was an error parsing the body":
            detail = "the body cannot be read; is it what the header Content-Type says?"
        return problem_response(error.status_code, detail, getattr(error, "title", ""), error.headers)

    async def on_invalid(_: Request, error: Any) -> Response:
        return problem_response(400, _first_mistake(error))

    async def on_refused(_: Request, error: Any) -> Response:
        return problem_response(400, str(error))

    async def on_gone(_: Request, __: Any) -> Response:
        return Response(status_code=GONE)

    async def on_fault(_: Request, error: Any) -> Response:
        return unexpected(error)

    app.add_exception_handler(HTTPException, on_http)
    app.add_exception_handler(RequestValidationError, on_invalid)
    app.add_exception_handler(LongtailError, on_refused)
    app.add_exception_handler(ClientDisconnect, on_gone)
    app.add_exception_handler(Exception, on_fault)
    _describe(app)


def _describe(app: FastAPI) -> None:
    """Leave out of the schema what FastAPI would answer to a wrong request, which here is a problem with status 400."""
    made = app.openapi

    def openapi() -> dict[str, Any]:
        schema = made()
        for item in schema["paths"].values():
            for operation in item.values():
                operation["responses"].pop("422", None)
        for name in ("HTTPValidationError", "ValidationError"):
            schema["components"]["schemas"].pop(name, None)
        return schema

    app.openapi = openapi  # type: ignore[method-assign]


def unexpected(error: BaseException) -> Response:
    """Log a fault of the service and return what the client is told about it: not the message, which may hold data."""
    logger.exception("unexpected %s: %s", type(error).__name__, first_line(error), exc_info=error)
    return problem_response(500, "this is a fault of the service; its log has the details")


def _first_mistake(error: RequestValidationError) -> str:
    mistake = error.errors()[0]
    where = [str(part) for part in mistake["loc"]]
    if mistake["type"] == "json_invalid":
        return f"the body is not JSON: {mistake.get('ctx', {}).get('error', 'malformed')} (position {where[-1]})"
    place = where[0] if len(where) == 1 else f"{'.'.join(where[1:])} (in the {where[0]})"
    return f"{place}: {mistake['msg'][:1].lower()}{mistake['msg'][1:]}"
