"""Requests that do not take the whole way: suggestions before the routes, refusals before the body."""

from __future__ import annotations

import asyncio
import json
import socket
from urllib.parse import urlencode

import httpx
import pytest
import uvicorn

from longtail.serve.app import create_app
from longtail.serve.connections import GuardedProtocol
from longtail.serve.gate import Gate
from longtail.serve.settings import ModelSettings, Settings
from longtail.serve.shortcuts import Shortcuts
from serve.conftest import words_of

FORM, JSON = "application/x-www-form-urlencoded", "application/json"
ONE, SEVERAL = "/v1/projects/texts/suggest", "/v1/projects/texts/suggest-batch"
TEXT = words_of(3)
TEXTS = [{"text": words_of(i), "document_id": f"d{i}"} for i in range(3)]


@pytest.fixture(scope="module")
def apps(folder):
    """The application with shortcuts, and the routes alone."""
    models = {name: ModelSettings(path=folder / name) for name in ("texts", "rows")}
    gate, service = create_app(Settings(models=models, access_log=False, max_text=1000))
    service.models.refresh()
    assert isinstance(gate.app, Shortcuts)
    return gate, Gate(gate.app.app, service.settings, lambda: False, lambda: None)


def asked(app, path, body, kind):
    async def send():
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://service") as client:
            return await client.post(path, content=body, headers={"content-type": kind})

    return asyncio.run(send())


def form(**fields):
    return urlencode(fields).encode()


CASES = {
    "one text": (ONE, form(text=TEXT, limit=3), FORM, 200),
    "an empty language and an extra field": (ONE, form(text=TEXT, language="", project="x"), FORM, 200),
    "another language": (ONE, form(text=TEXT, language="fi"), FORM, 200),
    "threshold and exponent": (ONE, form(text=TEXT, threshold=0.3, exponent=0.5), FORM, 200),
    "an excluded label": (ONE, form(text=TEXT, exclude="c3"), FORM, 200),
    "a charset": (ONE, form(text=TEXT), f"{FORM}; charset=utf-8", 200),
    "no text": (ONE, form(limit=3), FORM, 400),
    "a limit out of range": (ONE, form(text=TEXT, limit=10**9), FORM, 400),
    "a language that is not there": (ONE, form(text=TEXT, language="de"), FORM, 400),
    "a text that is too long": (ONE, form(text="x" * 2000), FORM, 413),
    "a NUL": (ONE, form(text="a\0b"), FORM, 400),
    "not UTF-8": (ONE, b"text=%ff%fe", FORM, 400),
    "another kind of body": (ONE, b"{}", JSON, 415),
    "another project": ("/v1/projects/none/suggest", form(text=TEXT), FORM, 404),
    "a model of features": ("/v1/projects/rows/suggest", form(text=TEXT), FORM, 400),
    "several texts": (SEVERAL, json.dumps({"documents": TEXTS}).encode(), JSON, 200),
    "several, with a query": (f"{SEVERAL}?limit=2&threshold=0.1", json.dumps({"documents": TEXTS}).encode(), JSON, 200),
    "several, excluded": (SEVERAL, json.dumps({"documents": TEXTS, "exclude": ["c1"]}).encode(), JSON, 200),
    "a wrong query": (f"{SEVERAL}?limit=-1", json.dumps({"documents": TEXTS}).encode(), JSON, 400),
    "a query that is none": (f"{SEVERAL}?limit", json.dumps({"documents": TEXTS}).encode(), JSON, 400),
    "not JSON": (SEVERAL, b'{"documents": [', JSON, 400),
    "a lone surrogate": (SEVERAL, b'{"documents": [{"text": "\\ud800"}]}', JSON, 400),
    "a wrong type": (SEVERAL, b'{"documents": [{"text": 3}]}', JSON, 400),
    "a thousand documents": (SEVERAL, json.dumps({"documents": TEXTS * 400}).encode(), JSON, 400),
    "UTF-16": (SEVERAL, json.dumps({"documents": TEXTS}).encode("utf-16"), JSON, 200),
}


@pytest.mark.parametrize("case", CASES)
def test_a_shortcut_gives_the_answer_of_the_routes(case, apps):
    *request, status = CASES[case]
    short, whole = (asked(app, *request) for app in apps)
    assert short.status_code == whole.status_code == status
    assert short.json() == whole.json()
    assert short.headers["content-type"] == whole.headers["content-type"]


class Server:
    """uvicorn with the protocol of a worker, in this process, and one connection to it."""

    def __init__(self, gate):
        self.server = uvicorn.Server(uvicorn.Config(gate, http=GuardedProtocol, lifespan="off", log_config=None))

    async def __aenter__(self):
        listening = socket.create_server(("127.0.0.1", 0))
        self.port = listening.getsockname()[1]
        self.task = asyncio.create_task(self.server.serve([listening]))
        while not self.server.started:
            await asyncio.sleep(0.01)
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port)
        return self

    async def __aexit__(self, *_):
        self.writer.close()
        self.server.should_exit = True
        await self.task

    async def answer(self):
        head = (await asyncio.wait_for(self.reader.readuntil(b"\r\n\r\n"), 5)).decode().lower()
        length = int(head.split("content-length: ")[1].split("\r\n")[0])
        return head, await self.reader.readexactly(length)


def head(path=ONE, length=4, method="POST", *lines):
    return "\r\n".join([f"{method} {path} HTTP/1.1", "Host: x", f"Content-Length: {length}", *lines, "", ""]).encode()


async def _echo(scope, receive, send):
    body = (await receive())["body"]
    headers = [(b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def test_a_full_queue_refuses_by_the_head_of_a_request_and_the_connection_goes_on(monkeypatch):
    waits = [7.4]
    settings = Settings(models={"m": ModelSettings(path="nowhere")}, access_log=False, token="secret")
    gate = Gate(_echo, settings, lambda: False, lambda: waits[0])
    monkeypatch.setattr(GuardedProtocol, "gate", gate)
    right = "Authorization: Bearer secret"

    async def run():
        async with Server(gate) as at:
            at.writer.write(head(ONE, 4, "POST", right))  # the body is not there yet
            found, body = await at.answer()
            assert found.startswith("http/1.1 503 ")
            assert "retry-after: 7\r\n" in found
            assert "content-type: application/problem+json\r\n" in found
            assert json.loads(body)["status"] == 503
            at.writer.write(b"late" + head(ONE))  # the rest is thrown away; without a token
            assert (await at.answer())[0].startswith("http/1.1 401 ")
            at.writer.write(b"body" + head("/v1/projects/m/learn", 4, "POST", right) + b"kept")
            assert (await at.answer())[1] == b"kept"  # it does not wait in the queue
            waits[0] = None
            at.writer.write(head(f"{ONE}?x=1", 4, "POST", right) + b"good")
            assert (await at.answer())[1] == b"good"
            at.writer.write(head(ONE, 4, "POST", right) + b"one1" + head(ONE, 4, "POST", right) + b"two2")
            assert [(await at.answer())[1] for _ in range(2)] == [b"one1", b"two2"]
            waits[0] = 0.1
            at.writer.write(head(ONE, 4, "POST", right, "Connection: close") + b"last")
            assert (await at.answer())[0].startswith("http/1.1 503 ")
            assert await asyncio.wait_for(at.reader.read(), 5) == b""

    asyncio.run(run())
