"""Connections that no worker will take when the service ends: each gets 503, and none is reset.

Closing a socket on which something is still to be read, or to come, resets the connection, and its client may lose the
answer. So what was answered is closed for writing only, and read until its client has closed it.
"""

from __future__ import annotations

import contextlib
import ctypes
import socket
import struct
import sys
import time

from longtail.serve.problems import raw_refusal

LINGER = 2.0  # seconds that a client has to read its answer and close
_OPENING = 0.2  # seconds that a connection takes to open, over the network
_AT_ONCE = 64  # connections
_SO_ATTACH_FILTER = 26  # Linux; Python's socket module does not name it

# Classic BPF on a TCP segment: drop those that open a connection (SYN without ACK), take all others.
_LOAD_BYTE, _AND, _JUMP_IF_EQUAL, _RETURN = 0x30, 0x54, 0x15, 0x06
_FLAGS, _SYN_AND_ACK, _SYN = 13, 0x12, 0x02
_NO_OPENING = (
    (_LOAD_BYTE, 0, 0, _FLAGS),
    (_AND, 0, 0, _SYN_AND_ACK),
    (_JUMP_IF_EQUAL, 0, 1, _SYN),
    (_RETURN, 0, 0, 0),
    (_RETURN, 0, 0, 0xFFFFFFFF),
)


class Farewell:
    """Answers connections that wait at a listening socket.

    Parameters
    ----------
    listening : socket.socket
        Socket of the service; it no longer blocks.
    """

    def __init__(self, listening: socket.socket) -> None:
        self.listening = listening
        self.listening.setblocking(False)
        self._answered: list[tuple[socket.socket, float]] = []

    def step(self) -> bool:
        """Answer those that wait, and close those that have read their answer; return whether there are more."""
        taken = 0
        with contextlib.suppress(OSError):
            while taken < _AT_ONCE:
                connection, _ = self.listening.accept()
                taken += 1
                self._answer(connection)
        self._answered = [waiting for waiting in self._answered if not _is_over(*waiting)]
        return bool(taken or self._answered)

    def finish(self) -> None:
        """Let no new connection in, answer those that are there, and close the listening socket."""
        refuse_new(self.listening)
        start = time.monotonic()
        while (self.step() and time.monotonic() < start + LINGER) or time.monotonic() < start + _OPENING:
            time.sleep(0.01)
        self.listening.close()
        for connection, _ in self._answered:
            connection.close()

    def _answer(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        self._answered.append((connection, time.monotonic() + LINGER))
        with contextlib.suppress(OSError):
            connection.sendall(raw_refusal(503, "the service is ending; try again in a moment"))
            connection.shutdown(socket.SHUT_WR)


def _is_over(connection: socket.socket, until: float) -> bool:
    """Throw away what a client sends; close its connection when it has closed it, or at a time."""
    try:
        while time.monotonic() < until and connection.recv(65536):
            pass
    except BlockingIOError:
        return False
    except OSError:
        pass
    connection.close()
    return True


def refuse_new(listening: socket.socket) -> None:
    """Let the system drop requests for new connections; those that are being opened still come through.

    A client whose request was dropped asks again after a second, when the socket is closed, and is refused. No other
    call does this: shutdown() resets what waits, and listen(0) still lets one in. The filter needs no rights, lives as
    long as the socket, and where it cannot be set, or the system is not Linux, nothing changes: a connection opened in
    the last moment is then reset.
    """
    if sys.platform != "linux":
        return
    code = b"".join(struct.pack("HBBI", *instruction) for instruction in _NO_OPENING)
    program = ctypes.create_string_buffer(code)
    head = struct.pack("HL", len(_NO_OPENING), ctypes.addressof(program))
    with contextlib.suppress(OSError):
        listening.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, head)
