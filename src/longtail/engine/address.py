"""What is at the address of a Ray cluster, before Ray itself tries for many minutes to connect to it."""

from __future__ import annotations

import os
import socket

from longtail.errors import ParameterError

START = "start one with `ray start --head`, and `ray start --address=HOST:PORT` on every other node"

_PATIENCE = 5.0  # seconds
# The head of a cluster speaks gRPC, that is HTTP/2: after this greeting with an empty SETTINGS frame it sends its own.
_GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
_SETTINGS, _HEADER = 4, 9  # type of the frame, and bytes before its content


def check_address(address: str) -> None:
    """Raise ParameterError if nothing listens at HOST:PORT, or something that cannot be Ray.

    Parameters
    ----------
    address : str
        Address; one of another form, such as "auto", is left to Ray, but none of Ray's client: the driver maps what
        workers map, so it runs on a node.
    """
    if "://" in address:
        raise ParameterError(
            f"{address!r} is an address of Ray's client or jobs; give HOST:PORT, as `ray start --head` prints it, or "
            "auto, on a node of the cluster"
        )
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit():
        return
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=_PATIENCE) as connection:
            if os.environ.get("RAY_USE_TLS", "0").lower() in ("1", "true") or _speaks_http2(connection):
                return
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ParameterError(f"there is no Ray cluster at {address} ({reason}); {START}") from error
    raise ParameterError(
        f"what listens at {address} is no Ray cluster; give the address that `ray start --head` prints, with its port "
        "(6379 unless told otherwise; 8265 is that of the dashboard)"
    )


def _speaks_http2(connection: socket.socket) -> bool:
    received = b""
    try:
        connection.sendall(_GREETING)
        while len(received) < _HEADER and (more := connection.recv(_HEADER - len(received))):
            received += more
    except OSError:  # it says nothing, or hangs up
        return False
    return len(received) == _HEADER and received[3] == _SETTINGS
