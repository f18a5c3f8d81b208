"""Requests that no client would send, to a service that must go on answering others, without errors in its log."""

from __future__ import annotations

import atexit
import contextlib
import functools
import socket
from pathlib import Path

import numpy as np

from attack.frame import Finding, attack, tally
from attack.victims import saved
from serve.running import Running, call, start

_REQUESTS = 200
_WAIT_S = 0.2  # for an answer, which half a request does not get
_CONTROLS = set("\x1b\x07\r\u202e\x9b")
_SUGGEST = "/v1/projects/m/suggest"
_ASKED = f"POST {_SUGGEST} HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-www-form-urlencoded\r\n".encode()
_SOUND = (
    _ASKED + b"Content-Length: 8\r\n\r\ntext=law",
    _ASKED + b"Transfer-Encoding: chunked\r\n\r\n8\r\ntext=law\r\n0\r\n\r\n",
    _ASKED + b"Expect: 100-continue\r\nContent-Length: 8\r\n\r\ntext=law",
    b"POST /v1/projects/m/suggest-batch HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 32\r\n"
    b'\r\n{"documents":[{"text":"a law"}]}',
    b"GET /longtail/v1/models HTTP/1.1\r\nHost: x\r\nAccept-Encoding: gzip\r\n\r\n",
    b"GET /nothing HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
    b"OPTIONS * HTTP/1.1\r\nHost: x\r\nOrigin: http://x\r\nAccess-Control-Request-Method: POST\r\n\r\n",
    b"HEAD / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
    b"TRACE / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
)
_JUNK = (
    b"\0", b"\n", b"\r\n", b"\r\n\r\n", b"\xff\xfe", b"\x1b[31m", b"%00%ff", b"//", b"/../../etc/passwd", b"a" * 70_000,
    b"Content-Length: 99999999999999999999999\r\n", b"Content-Length: -1\r\n", b"Content-Length: 1\r\n",
    b"Transfer-Encoding: chunked\r\n", b"ffffffffffffffff\r\n", b"X: " + b"y" * 5000 + b"\r\n", b"Range: bytes=0-\r\n",
    b"Content-Type: multipart/form-data; boundary=\r\n", b"Content-Encoding: gzip\r\n", b"Host: \xff\r\n",
    b"Connection: close\r\n", b"Authorization: Bearer \xff\r\n", b"Cookie: " + b"a=b; " * 1000 + b"\r\n",
)  # fmt: skip


@functools.cache
def _service() -> Running:
    """Return the service that all trials share."""
    running = start(f"m={saved('textpipeline')}", "--workers", 1)
    atexit.register(running.stop)
    return running


@attack("service/requests")
def changed_requests(rng: np.random.Generator, folder: Path) -> None:
    """Send requests with random changes, some behind others in one connection, some cut short."""
    service = _service()
    before = service.log.stat().st_size
    for _ in range(_REQUESTS):
        _send(rng, service, _changed(rng))
    tally("changed requests", _REQUESTS)
    for path, body in (("/health/ready", None), (_SUGGEST, b"text=law")):
        status = call(service.address, path, body)[0]
        if status != 200:
            raise Finding(f"{path} has the status {status}")
    said = service.log.read_bytes()[before:].decode()
    (folder / "log.txt").write_text(said)
    if "Traceback" in said or "\nERROR" in said or _CONTROLS & set(said):
        raise Finding("the log has an error, a traceback or control characters")


def _changed(rng: np.random.Generator) -> bytes:
    """Return sound requests with something put in, left out or replaced."""
    sent = bytearray(b"".join(_SOUND[int(i)] for i in rng.integers(len(_SOUND), size=int(rng.choice([1, 1, 1, 2, 5])))))
    for _ in range(int(rng.choice([0, 1, 1, 2, 4]))):
        at, kind = int(rng.integers(len(sent) + 1)), rng.random()
        if kind < 0.5:
            sent[at:at] = _JUNK[int(rng.integers(len(_JUNK)))]
        elif kind < 0.8:
            del sent[at : at + int(rng.integers(1, 20))]
        else:
            sent[at : at + 1] = bytes([int(rng.integers(256))])
    return bytes(sent)


def _send(rng: np.random.Generator, service: Running, sent: bytes) -> None:
    """Send bytes in one or two pieces, and wait for an answer, or not; the service may close the connection."""
    host, port = service.address.removeprefix("http://").split(":")
    with contextlib.suppress(OSError), socket.create_connection((host, int(port)), 5) as client:
        client.settimeout(_WAIT_S)
        cut = int(rng.integers(len(sent) + 1)) if rng.random() < 0.3 else len(sent)
        client.sendall(sent[:cut])
        client.sendall(sent[cut:])
        if rng.random() < 0.3:
            client.shutdown(socket.SHUT_WR)
        if rng.random() < 0.8:
            client.recv(65536)
