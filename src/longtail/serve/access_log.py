"""The access log: one JSON line per request on stderr, with nothing of the texts in it."""

from __future__ import annotations

import contextlib
import json
import os
import time
from typing import Any

_LONGEST = 200  # characters of an address


class AccessLog:
    """Writes lines with one system call each, so that lines of several workers do not mix."""

    def __init__(self, descriptor: int = 2) -> None:
        self.descriptor = descriptor

    def write(self, scope: Any, status: int, seconds: float, read: int, sent: int) -> None:
        """Log one request.

        Parameters
        ----------
        scope : dict
            ASGI scope of the request; the query is left out, since it may hold words of a search.
        status : int
            Status of the answer; 499 if the client had gone.
        seconds : float
            Time that it took.
        read : int
            Bytes of the body.
        sent : int
            Bytes of the answer.
        """
        client = scope.get("client")
        line = {
            "time": round(time.time(), 3),
            "client": client[0] if client else None,
            "method": scope["method"],
            "path": scope["path"][:_LONGEST],
            "status": status,
            "ms": round(1000 * seconds, 2),
            "bytes_in": read,
            "bytes_out": sent,
            "worker": os.getpid(),
        }
        with contextlib.suppress(OSError):  # a log that cannot be written must not stop the service
            os.write(self.descriptor, json.dumps(line).encode() + b"\n")
