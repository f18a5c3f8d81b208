"""Connections that wait when the service ends: each is answered, and none is reset."""

from __future__ import annotations

import contextlib
import socket
import sys
import threading
import time

import pytest

from longtail.serve import farewell
from longtail.serve.farewell import Farewell, refuse_new

linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux drops requests for connections")


@pytest.fixture
def listening():
    with contextlib.closing(socket.create_server(("127.0.0.1", 0), backlog=64)) as made:
        yield made


def connect(listening: socket.socket, seconds: float = 20) -> socket.socket:
    return socket.create_connection(listening.getsockname(), timeout=seconds)


def answer(connection: socket.socket) -> bytes:
    """Return all that comes, up to an orderly end: a reset would raise ConnectionResetError."""
    with connection:
        return b"".join(iter(lambda: connection.recv(65536), b""))


def test_all_that_wait_are_answered_whatever_they_have_sent(listening):
    waiting = [connect(listening) for _ in range(20)]
    for number, connection in enumerate(waiting):
        connection.sendall(b"POST / HTTP/1.1\r\nContent-Length: 90000\r\n\r\n" + b"a" * 4_500 * number)
    ending = threading.Thread(target=Farewell(listening).finish)
    ending.start()
    found = [answer(connection) for connection in waiting]
    ending.join(20)
    assert all(one.startswith(b"HTTP/1.1 503 ") and b"Retry-After" in one for one in found)
    with pytest.raises(OSError, match="Bad file descriptor"):
        listening.getsockname()


def test_one_that_opens_while_the_service_ends_is_answered_too(listening, monkeypatch):
    monkeypatch.setattr(farewell, "refuse_new", lambda _: None)  # it was on its way before
    address = listening.getsockname()
    ending = threading.Thread(target=Farewell(listening).finish)
    ending.start()
    time.sleep(0.05)
    with socket.create_connection(address, timeout=20) as late:
        assert late.recv(100).startswith(b"HTTP/1.1 503 ")
    ending.join(20)
    assert not ending.is_alive()


@linux
def test_new_connections_are_not_let_in_and_open_ones_go_on(listening):
    before, waiting = connect(listening), connect(listening)
    accepted, _ = listening.accept()
    refuse_new(listening)
    with pytest.raises(TimeoutError):
        connect(listening, 0.3)
    late, _ = listening.accept()  # the one that waited
    with accepted, late:
        for ours, theirs in ((before, accepted), (waiting, late)):
            ours.sendall(b"question")
            assert theirs.recv(100) == b"question"
            theirs.sendall(b"answer")
            theirs.shutdown(socket.SHUT_WR)
            assert answer(ours) == b"answer"
