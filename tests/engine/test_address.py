"""Addresses of Ray clusters: what listens there is looked at first, since Ray would try for a quarter of an hour."""

from __future__ import annotations

import contextlib
import socket
import threading

import pytest

from longtail.engine.address import check_address
from longtail.errors import ParameterError

SETTINGS = bytes([0, 0, 6, 4, 0, 0, 0, 0, 0])


@contextlib.contextmanager
def answering(answer: bytes):
    """Listen at an address and give everybody the same answer."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            with contextlib.suppress(OSError):
                connection, _ = server.accept()
                with connection:
                    connection.recv(100)
                    connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"127.0.0.1:{server.getsockname()[1]}"
        thread.join()


def test_a_head_that_speaks_http2_passes():
    with answering(SETTINGS) as address:
        check_address(address)


@pytest.mark.parametrize(
    "answer", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"SSH-2.0", b""], ids=["http", "ssh", "nothing"]
)
def test_other_services_are_no_clusters(answer):
    with (
        answering(answer) as address,
        pytest.raises(ParameterError, match=f"what listens at {address} is no Ray cluster"),
    ):
        check_address(address)


def test_encrypted_clusters_are_left_to_ray(monkeypatch):
    monkeypatch.setenv("RAY_USE_TLS", "1")
    with socket.create_server(("127.0.0.1", 0)) as server:
        check_address(f"127.0.0.1:{server.getsockname()[1]}")


@pytest.mark.parametrize("address", ["127.0.0.1:1", "no-such-host.invalid:6379", "127.0.0.1:99999", "[::1]:1"])
def test_where_nobody_listens_the_message_says_how_to_start_a_cluster(address):
    with pytest.raises(ParameterError, match=r"there is no Ray cluster at .* \(.+\); start one with `ray start"):
        check_address(address)


@pytest.mark.parametrize("address", ["ray://head:10001", "http://head:8265"])
def test_addresses_of_the_client_and_of_jobs_are_explained(address):
    with pytest.raises(ParameterError, match="address of Ray's client or jobs; give HOST:PORT"):
        check_address(address)


@pytest.mark.parametrize("address", ["auto", "local", "somewhere", "", ":1"])
def test_other_forms_are_left_to_ray(address):
    check_address(address)
